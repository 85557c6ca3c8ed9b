package lean

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/keep"
)

// fate says where a span that has ended goes.
type fate uint8

const (
	exported fate = iota // now, for a reason
	held                 // until its trace is decided
	unwanted             // dropped: the policy gave no reason to keep it
	lost                 // dropped because of a bound
)

// export is what one step of a shard hands on, once its lock is released.
type export struct {
	handed
	more     []handed // rarely: several traces were evicted at once
	unwanted int      // held spans that the policy gave no reason to keep
	lost     int      // held spans that were dropped because of a bound
}

// handed is the spans of one trace, exported for one reason (Head: as they are).
type handed struct {
	held   *heldSpans
	reason keep.Reason
}

func (e *export) add(h *heldSpans, reason keep.Reason) {
	if e.held == nil {
		e.handed = handed{h, reason}
	} else {
		e.more = append(e.more, handed{h, reason})
	}
}

// end takes an ended span whose local trace waits for a decision.
func (k *keeper) end(t *localTrace, span *Span, r *record, end int64, sh *shard) {
	var v keep.Verdict
	k.observe(&v, r, end)
	_, reason := k.policy.Decide(v)
	r.writeEnd(k.p, end)
	var out export
	s := t.shard
	s.mu.Lock()
	f, reason := s.end(k.maxSpans, t, span, r, reason, &out)
	s.mu.Unlock()
	k.send(s, &out)
	switch f {
	case exported:
		k.finish(r, span.sc, reason)
		k.p.queue.add(sh, span.scope, r.buf)
	case unwanted:
		sh.recordOnly.Add(1)
	case lost:
		sh.undecided.Add(1)
	}
}

// end decides, given the reason that the span itself is to its trace.
func (s *keepShard) end(maxSpans int, t *localTrace, span *Span, r *record, reason keep.Reason, out *export) (fate, keep.Reason) {
	sampled := span.sc.IsSampled()
	root := t.root == span.sc.SpanID() && !t.decided
	// A span that ends after the root follows its decision. One that ends after its trace was evicted is
	// decided alone, and if it is kept, so are the spans that end after it.
	if t.reason == keep.NotKept && reason != keep.NotKept && t.late != keep.Late {
		t.reason = reason
		s.stats.TracesKept[reason]++
		if t.lost {
			s.stats.TracesPartial++
		}
		if h := s.take(t); h != nil {
			s.stats.SpansKept += uint64(len(h.spans))
			out.add(h, reason)
		}
	}
	f := exported
	switch {
	case t.reason != keep.NotKept:
		reason = t.reason
		s.stats.SpansKept++
	case !t.decided && !root:
		cause, ok := s.hold(maxSpans, t, span, r, out)
		switch {
		case ok:
			f = held
		case sampled:
			reason = keep.Head
			s.stats.SpansPassed++
		default:
			t.lost = true
			s.stats.SpansDropped[cause]++
			f = lost
		}
	default:
		if root {
			passed := s.discard(t, keep.Unwanted, out)
			s.count(keep.Unwanted, passed || sampled)
		}
		switch {
		case sampled:
			reason = keep.Head
			s.stats.SpansPassed++
		default:
			cause := keep.Unwanted
			if t.decided {
				cause = t.late
			}
			s.stats.SpansDropped[cause]++
			f = unwanted
		}
	}
	if root {
		s.open.Remove(t)
		t.decided, t.late = true, keep.Late
	}
	return f, reason
}

// finish writes the fields that the decision changes: a kept span is exported as sampled, with the
// trace state that states its probability.
func (k *keeper) finish(r *record, sc trace.SpanContext, reason keep.Reason) {
	if reason != keep.Head {
		sc = sc.WithTraceFlags(sc.TraceFlags() | trace.FlagsSampled).WithTraceState(k.policy.State(sc.TraceState(), reason))
	}
	r.writeIdentity(sc)
}

// hold buffers a span until its trace is decided, or returns the bound that prevents it.
func (s *keepShard) hold(maxSpans int, t *localTrace, span *Span, r *record, out *export) (keep.Cause, bool) {
	size := len(r.buf) + heldBytes
	switch {
	case t.held != nil && len(t.held.spans) >= maxSpans:
		return keep.TooManySpans, false
	case size > s.maxBytes:
		return keep.TooManyBytes, false
	}
	for s.bytes+size > s.maxBytes {
		oldest := s.holding.Oldest
		s.evict(oldest, keep.TooManyBytes, out)
		if oldest == t { // its own trace was the oldest: the span is dropped with it
			return keep.TooManyBytes, false
		}
	}
	if t.held == nil {
		t.held = s.buffer()
		s.holding.Push(t)
	}
	h := t.held
	h.spans = append(h.spans, heldSpan{
		extent: extent{len(h.buf), len(h.buf) + len(r.buf)}, scope: span.scope, sc: span.sc, remote: r.remote,
	})
	h.buf = append(h.buf, r.buf...)
	s.spans++
	s.bytes += size
	return 0, true
}

// evict decides a trace before its root has ended: to make room, or because it is too old. Spans
// of it that end later are decided alone. A kept one only leaves the list.
func (s *keepShard) evict(t *localTrace, cause keep.Cause, out *export) {
	s.open.Remove(t)
	t.decided, t.late, t.lost = true, keep.Unwanted, true
	if t.reason == keep.NotKept {
		s.count(cause, s.discard(t, cause, out))
	}
}

// count counts a trace that the policy gave no reason to keep; head: the head sampled some of it.
func (s *keepShard) count(cause keep.Cause, head bool) {
	if head {
		s.stats.TracesKept[keep.Head]++
	} else {
		s.stats.TracesDropped[cause]++
	}
}

// discard drops what a trace holds, but for spans that the head sampled: they are exported. It
// reports whether there are any.
func (s *keepShard) discard(t *localTrace, cause keep.Cause, out *export) bool {
	h := s.take(t)
	if h == nil {
		return false
	}
	passed := h.spans[:0]
	for _, span := range h.spans {
		if span.sc.IsSampled() {
			passed = append(passed, span)
		}
	}
	dropped := len(h.spans) - len(passed)
	clear(h.spans[len(passed):])
	h.spans = passed
	s.stats.SpansPassed += uint64(len(passed))
	s.stats.SpansDropped[cause] += uint64(dropped)
	if cause == keep.Unwanted {
		out.unwanted += dropped
	} else {
		out.lost += dropped
	}
	if len(passed) == 0 {
		s.reuse(h)
		return false
	}
	out.add(h, keep.Head)
	return true
}

// take takes a trace's spans out of the shard; nil if it has none.
func (s *keepShard) take(t *localTrace) *heldSpans {
	h := t.held
	if h != nil {
		t.held = nil
		s.holding.Remove(t)
		s.spans -= len(h.spans)
		s.bytes -= len(h.buf) + heldBytes*len(h.spans)
	}
	return h
}

func (s *keepShard) buffer() *heldSpans {
	n := len(s.free)
	if n == 0 {
		return new(heldSpans)
	}
	h := s.free[n-1]
	s.free = s.free[:n-1]
	return h
}

func (s *keepShard) reuse(h *heldSpans) {
	if cap(h.buf) <= maxKeptHeld && len(s.free) < maxFreeHeld && !s.closed {
		clear(h.spans)
		h.buf, h.spans = h.buf[:0], h.spans[:0]
		s.free = append(s.free, h)
	}
}
