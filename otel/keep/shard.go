package keep

import (
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/intrusive"
)

// limits is a shard's share of the policy's bounds.
type limits struct {
	traces, bytes, spansPerTrace, late int
}

// shard holds the local traces of its part of the trace ids. No method calls
// the next processor: what is to be exported is collected in an export and
// handed over after the lock is released.
type shard struct {
	mu       sync.Mutex
	limits   limits
	traces   map[trace.TraceID]*entry // open and late
	open     intrusive.List[entry]
	late     intrusive.List[entry]
	holding  intrusive.List[entry] // undecided traces with spans, by their first span's end
	spans    int                   // buffered
	bytes    int                   // buffered
	dropped  []trace.TraceID       // the last ones, a ring
	nextDrop int
	free     []*entry
	counters counters

	// Outside the lock:
	calls   atomic.Int64  // of the processor, in progress
	passed  atomic.Uint64 // spans handed on without the lock
	ignored atomic.Uint64 // spans that ended after the shutdown

	_ [64]byte // the next shard's lock is on another cache line
}

// export is what one step of a shard hands on.
type export struct {
	reason Reason
	spans  []sdktrace.ReadOnlySpan // kept, for reason
	passed []sdktrace.ReadOnlySpan // as they are
}

func (s *shard) init(l limits) {
	s.limits = l
	s.traces = make(map[trace.TraceID]*entry)
	s.open.Of, s.late.Of, s.holding.Of = place, place, holding
	s.dropped = make([]trace.TraceID, 0, l.late)
}

// start registers a local root.
func (s *shard) start(id trace.TraceID, epoch uint32, out *export) {
	e := s.traces[id]
	switch {
	case e == nil:
		s.makeRoom(epoch, out)
		e = s.allocate(id)
		s.traces[id] = e
		s.enter(&s.open, e, epoch)
	case e.roots == 0: // another local root of a trace that is kept
		s.late.Remove(e)
		s.makeRoom(epoch, out)
		s.enter(&s.open, e, epoch)
	}
	e.roots++
}

// makeRoom evicts the oldest open trace if no further one may be open.
func (s *shard) makeRoom(epoch uint32, out *export) {
	if s.open.Len >= s.limits.traces {
		s.evict(s.open.Oldest, TooManyOpen, epoch, out)
	}
}

func (s *shard) enter(l *intrusive.List[entry], e *entry, epoch uint32) {
	e.since = epoch
	l.Push(e)
}

// end takes an ended span with its verdict. now is set if the span is to be
// handed on at once, for that reason (Head: as it is).
func (s *shard) end(span sdktrace.ReadOnlySpan, id trace.TraceID, root bool, v Verdict, epoch uint32, out *export) (now Reason) {
	e := s.traces[id]
	if e == nil {
		return s.alone(span, id, root, v, epoch)
	}
	last := false
	if root && e.roots > 0 {
		e.roots--
		last = e.roots == 0
	}
	switch {
	case e.reason != NotKept:
		s.counters.spansKept++
		if last {
			s.settle(e, epoch)
		}
		return e.reason
	case v.Kept():
		now = v.reason
		s.counters.spansKept += 1 + uint64(len(e.spans))
		s.keep(e, now)
		out.reason, out.spans = now, s.take(e)
		if last {
			s.settle(e, epoch)
		}
		return now
	case last:
		return s.drop(e, span, out)
	}
	return s.buffer(e, span, epoch, out)
}

// alone decides about a span whose trace is not known.
func (s *shard) alone(span sdktrace.ReadOnlySpan, id trace.TraceID, root bool, v Verdict, epoch uint32) Reason {
	switch {
	case span.SpanContext().IsSampled():
		s.counters.spansPassed++
		return Head
	case !root && s.wasDropped(id):
		s.counters.spansDropped[Late]++
		return NotKept
	case !v.Kept():
		s.counters.spansDropped[Unwanted]++
		return NotKept
	}
	e := s.allocate(id)
	e.lost = true
	s.traces[id] = e
	s.keep(e, v.reason)
	s.remember(e, epoch)
	s.counters.spansKept++
	return v.reason
}

// keep marks the trace as kept.
func (s *shard) keep(e *entry, r Reason) {
	e.reason = r
	s.counters.tracesKept[r]++
	if e.lost {
		s.counters.tracesPartial++
	}
}

// settle moves a kept trace whose roots have ended to the remembered ones.
func (s *shard) settle(e *entry, epoch uint32) {
	s.open.Remove(e)
	e.roots = 0
	s.remember(e, epoch)
}

func (s *shard) remember(e *entry, epoch uint32) {
	if s.late.Len >= s.limits.late {
		s.forget(s.late.Oldest)
	}
	s.enter(&s.late, e, epoch)
}

// forget removes a remembered trace.
func (s *shard) forget(e *entry) {
	s.late.Remove(e)
	s.release(e)
}

// drop ends an undecided trace with its last root. What the head sampled is
// handed on.
func (s *shard) drop(e *entry, root sdktrace.ReadOnlySpan, out *export) (now Reason) {
	s.discard(e, Unwanted, out)
	if root.SpanContext().IsSampled() {
		s.counters.spansPassed++
		now = Head
	} else {
		s.counters.spansDropped[Unwanted]++
	}
	if now == Head || len(out.passed) > 0 {
		s.counters.tracesKept[Head]++
	} else {
		s.counters.tracesDropped[Unwanted]++
		s.rememberDropped(e.id)
	}
	s.open.Remove(e)
	s.release(e)
	return now
}

// evict removes an open trace to make room, or because it is too old.
func (s *shard) evict(e *entry, cause Cause, epoch uint32, out *export) {
	if e.reason != NotKept {
		s.settle(e, epoch)
		return
	}
	before := len(out.passed)
	s.discard(e, cause, out)
	if len(out.passed) > before {
		s.counters.tracesKept[Head]++
	} else {
		s.counters.tracesDropped[cause]++
	}
	s.open.Remove(e)
	s.release(e)
}

// sweep removes traces older than age epochs, at most limit of them, so that the
// lock is not held for long. It reports whether there may be more.
func (s *shard) sweep(epoch, age uint32, limit int, out *export) bool {
	for ; limit > 0; limit-- {
		if e := s.open.Oldest; e != nil && epoch-e.since > age {
			s.evict(e, TooOld, epoch, out)
		} else if e := s.late.Oldest; e != nil && epoch-e.since > age {
			s.forget(e)
		} else {
			return false
		}
	}
	return true
}

// drain removes everything.
func (s *shard) drain(out *export) {
	for s.open.Oldest != nil {
		e := s.open.Oldest
		if e.reason != NotKept {
			s.open.Remove(e)
			s.release(e)
			continue
		}
		s.evict(e, ShutDown, 0, out)
	}
	for s.late.Oldest != nil {
		s.forget(s.late.Oldest)
	}
	s.free, s.traces = nil, map[trace.TraceID]*entry{}
}

func (s *shard) rememberDropped(id trace.TraceID) {
	if len(s.dropped) < cap(s.dropped) {
		s.dropped = append(s.dropped, id)
		return
	}
	s.dropped[s.nextDrop] = id
	if s.nextDrop++; s.nextDrop == len(s.dropped) {
		s.nextDrop = 0
	}
}

// wasDropped searches the ring: only spans that end late ask.
func (s *shard) wasDropped(id trace.TraceID) bool {
	for i := range s.dropped {
		if s.dropped[i] == id {
			return true
		}
	}
	return false
}

func (s *shard) allocate(id trace.TraceID) *entry {
	if n := len(s.free); n > 0 {
		e := s.free[n-1]
		s.free[n-1] = nil
		s.free = s.free[:n-1]
		e.id = id
		return e
	}
	return &entry{id: id}
}

// maxFree bounds the entries that a shard holds for reuse.
const maxFree = 128

// release forgets an entry that is in no list.
func (s *shard) release(e *entry) {
	delete(s.traces, e.id)
	if len(s.free) >= maxFree {
		return
	}
	spans := e.spans
	if cap(spans) > reusedSpans {
		spans = nil
	}
	*e = entry{spans: spans[:0]}
	s.free = append(s.free, e)
}
