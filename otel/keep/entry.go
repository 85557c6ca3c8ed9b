package keep

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/intrusive"
)

// entry is a local trace. It is in one of its shard's lists:
//
//	open: a local root has not ended. Undecided (reason NotKept), its ended
//	      spans are buffered; kept, they are exported as they end.
//	late: kept, all roots have ended; spans that end now are exported.
//
// An undecided trace is forgotten when its last root ends, but for its id in
// the shard's list of dropped ones. A head-sampled one (which waits with exact
// counts only) is exported then.
type entry struct {
	id     trace.TraceID
	reason Reason
	lost   bool   // spans were dropped because of a bound
	roots  int    // local roots that have not ended
	since  uint32 // epoch in which it came into its list
	spans  []sdktrace.ReadOnlySpan
	bytes  int // of spans

	place   intrusive.Link[entry] // in open or late
	holding intrusive.Link[entry] // in holding, if there are spans
}

// reusedSpans bounds the buffer that a forgotten entry keeps for the next trace.
const reusedSpans = 32

func place(e *entry) *intrusive.Link[entry]   { return &e.place }
func holding(e *entry) *intrusive.Link[entry] { return &e.holding }
