package keep

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// buffer holds a span of an undecided trace, within the bounds.
func (s *shard) buffer(e *entry, span sdktrace.ReadOnlySpan, epoch uint32, out *export) (now Reason) {
	size := Size(span)
	switch {
	case len(e.spans) >= s.limits.spansPerTrace:
		return s.refuse(e, span, TooManySpans)
	case size > s.limits.bytes:
		return s.refuse(e, span, TooManyBytes)
	}
	for s.bytes+size > s.limits.bytes {
		oldest := s.holding.Oldest
		s.evict(oldest, TooManyBytes, epoch, out)
		if oldest == e { // its own trace was the oldest: the span is dropped with it
			if span.SpanContext().IsSampled() {
				s.counters.spansPassed++
				return Head
			}
			s.counters.spansDropped[TooManyBytes]++
			return NotKept
		}
	}
	if len(e.spans) == 0 {
		s.holding.Push(e)
	}
	e.spans = append(e.spans, span)
	e.bytes += size
	s.spans++
	s.bytes += size
	return NotKept
}

// refuse drops a span instead of buffering it, unless the head sampled it: then it
// is handed on as it is.
func (s *shard) refuse(e *entry, span sdktrace.ReadOnlySpan, cause Cause) Reason {
	if span.SpanContext().IsSampled() {
		s.counters.spansPassed++
		return Head
	}
	e.lost = true
	s.counters.spansDropped[cause]++
	return NotKept
}

// take hands over the buffer of a trace that is kept.
func (s *shard) take(e *entry) []sdktrace.ReadOnlySpan {
	spans := e.spans
	s.unhold(e)
	e.spans = nil
	return spans
}

// unhold stops counting the buffer of e.
func (s *shard) unhold(e *entry) {
	if len(e.spans) == 0 {
		return
	}
	s.holding.Remove(e)
	s.spans -= len(e.spans)
	s.bytes -= e.bytes
	e.bytes = 0
}

// discard empties the buffer of an undecided trace: the head's spans are handed
// on, the others counted.
func (s *shard) discard(e *entry, cause Cause, out *export) {
	for _, span := range e.spans {
		if span.SpanContext().IsSampled() {
			out.passed = append(out.passed, span)
			s.counters.spansPassed++
		} else {
			s.counters.spansDropped[cause]++
		}
	}
	s.unhold(e)
	clear(e.spans)
	e.spans = e.spans[:0]
}
