package keepprocessor

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/span/semconv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests set.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

// quiet is a configuration that keeps nothing; each test turns on what it tests.
func quiet() *Config {
	c := defaultConfig()
	c.Errors = ErrorsNone
	c.Slow = Slow{}
	c.Rare = Rare{}
	c.Share.Probability = 0
	return c
}

func keeperOf(t testing.TB, c *Config, at *clock) *keeper {
	t.Helper()
	require.NoError(t, c.Validate())
	k, err := newKeeperAt(c, func() time.Time { return at.now })
	require.NoError(t, err)
	return k
}

// decided sends a message through k, and returns the remaining spans.
func decided(t testing.TB, k *keeper, td ptrace.Traces) ptrace.Traces {
	t.Helper()
	out, err := k.process(context.Background(), td)
	if errors.Is(err, processorhelper.ErrSkipProcessingData) {
		return ptrace.NewTraces()
	}
	require.NoError(t, err)
	return out
}

// spec is a span of a test.
type spec struct {
	service, name string
	kind          ptrace.SpanKind
	parent        int // index+1 of the parent's spec; 0: none
	start         int // ns after the others
	duration      time.Duration
	failed        bool
	state         string // trace state
	attributes    map[string]any
}

// message puts traces into one message, grouped by service, so that the spans of a trace
// are not adjacent.
func message(traces map[pcommon.TraceID][]spec) ptrace.Traces {
	td := ptrace.NewTraces()
	resources := map[string]ptrace.SpanSlice{}
	for id, specs := range traces {
		addTrace(td, resources, id, specs)
	}
	return td
}

func addTrace(td ptrace.Traces, resources map[string]ptrace.SpanSlice, id pcommon.TraceID, specs []spec) {
	for i, sp := range specs {
		spans, ok := resources[sp.service]
		if !ok {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr("service.name", sp.service)
			rs.Resource().Attributes().PutStr("region", "eu-"+sp.service)
			spans = rs.ScopeSpans().AppendEmpty().Spans()
			resources[sp.service] = spans
		}
		s := spans.AppendEmpty()
		s.SetTraceID(id)
		s.SetSpanID(pcommon.SpanID{id[15], id[14], byte(i + 1)})
		if sp.parent > 0 {
			s.SetParentSpanID(pcommon.SpanID{id[15], id[14], byte(sp.parent)})
		}
		s.SetName(sp.name)
		s.SetKind(sp.kind)
		s.SetStartTimestamp(pcommon.Timestamp(1_800_000_000_000_000_000 + i + sp.start))
		s.SetEndTimestamp(s.StartTimestamp() + pcommon.Timestamp(sp.duration))
		if sp.failed {
			s.Status().SetCode(ptrace.StatusCodeError)
		}
		s.TraceState().FromRaw(sp.state)
		if err := s.Attributes().FromRaw(sp.attributes); err != nil {
			panic(err)
		}
	}
}

// one is a message with one trace, with these random bits in its id.
func one(bits uint64, specs ...spec) ptrace.Traces {
	return message(map[pcommon.TraceID][]spec{idOf(bits): specs})
}

func idOf(bits uint64) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[8:], bits)
	id[0] = 1
	return id
}

// request is a server span that calls another service.
func request(service, name string) []spec {
	return []spec{
		{service: service, name: name, kind: ptrace.SpanKindServer, duration: time.Millisecond, attributes: map[string]any{semconv.TraceState: semconv.StateComplete}},
		{service: service, name: "GET", kind: ptrace.SpanKindClient, parent: 1, duration: time.Millisecond},
		{service: "stock", name: "GET /stock", kind: ptrace.SpanKindServer, parent: 2, duration: time.Millisecond},
	}
}

// reasonOf returns the reason on the top span, "" if the trace was dropped.
func reasonOf(t testing.TB, td ptrace.Traces) string {
	t.Helper()
	if td.SpanCount() == 0 {
		return ""
	}
	found := ""
	for s := range spans(td) {
		if v, ok := s.Attributes().Get(semconv.KeepReason); ok {
			assert.Equal(t, "", found, "two spans have a reason")
			found = v.Str()
		}
	}
	if found == "" {
		t.Error("kept without a reason")
	}
	return found
}

func spans(td ptrace.Traces) func(yield func(ptrace.Span) bool) {
	return func(yield func(ptrace.Span) bool) {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}
