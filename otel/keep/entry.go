package keep

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
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

	place   link // in open or late
	holding link // in holding, if there are spans
}

// reusedSpans bounds the buffer that a forgotten entry keeps for the next trace.
const reusedSpans = 32

type link struct{ prev, next *entry }

// list is a doubly linked list of entries, oldest first.
type list struct {
	oldest, newest *entry
	len            int
	link           func(*entry) *link
}

func place(e *entry) *link   { return &e.place }
func holding(e *entry) *link { return &e.holding }

func (l *list) push(e *entry) {
	at := l.link(e)
	at.prev, at.next = l.newest, nil
	if l.newest == nil {
		l.oldest = e
	} else {
		l.link(l.newest).next = e
	}
	l.newest = e
	l.len++
}

func (l *list) remove(e *entry) {
	at := l.link(e)
	if at.prev == nil {
		l.oldest = at.next
	} else {
		l.link(at.prev).next = at.next
	}
	if at.next == nil {
		l.newest = at.prev
	} else {
		l.link(at.next).prev = at.prev
	}
	*at = link{}
	l.len--
}
