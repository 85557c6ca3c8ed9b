package lean

import (
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// End ends the span; another call does nothing. Deferred, it sees a panic: the span gets an
// exception event, and the panic goes on.
func (s *Span) End(options ...trace.SpanEndOption) {
	if s == nil || s.origin == nil {
		return
	}
	p := s.p
	now := p.clock.monotonic()
	r := s.lock()
	if r == nil {
		return
	}
	var c trace.SpanConfig
	if len(options) > 0 {
		c = trace.NewSpanEndConfig(options...)
	}
	if !p.ignoresPanics {
		if panicked := recover(); panicked != nil {
			defer panic(panicked)
			s.mu.Unlock() // what the value prints may use the span
			s.addException(typeName(panicked), fmt.Sprint(panicked), eventConfig{stack: c.StackTrace()})
			if r = s.lock(); r == nil {
				return
			}
		}
	}
	s.rec = nil
	s.mu.Unlock()

	if r.task != nil {
		r.task.End()
	}
	var end int64
	if t := c.Timestamp(); t.IsZero() {
		end = r.endAt(now)
	} else {
		end = t.UnixNano()
	}
	sh := p.near.Get().(*shard)
	if s.sc.IsSampled() {
		sh.over[1].Add(1)
	} else {
		sh.over[0].Add(1)
	}
	switch {
	case s.local != nil:
		p.keeper.end(s.local, s, r, end, sh)
	case s.sc.IsSampled():
		if p.keeper != nil {
			p.keeper.learn(r, end)
		}
		r.writeEnd(p, end)
		r.writeIdentity(s.sc)
		p.queue.add(sh, s.scope, r.buf)
	default:
		sh.recordOnly.Add(1)
	}
	r.shard = sh
	if r.reset() {
		p.records.Put(r)
	}
	p.near.Put(sh)
}

// writeEnd writes what can change until the end.
func (r *record) writeEnd(p *TracerProvider, end int64) {
	b := appendString(r.buf, tagSpanName, validText(p.text(r.name)))
	b = appendFixed64(b, tagSpanEnd, notNegative(end))
	b = appendCount(b, tagSpanDroppedAttributes, r.droppedAttrs)
	if len(r.events) > 0 { // the SDK tells what was dropped only beside what was not
		b = appendCount(b, tagSpanDroppedEvents, r.droppedEvents)
	}
	if len(r.links) > 0 {
		b = appendCount(b, tagSpanDroppedLinks, r.droppedLinks)
	}
	switch r.status {
	case codes.Unset:
		b = append(b, tagSpanStatus, 0) // the official exporter always writes a status
	case codes.Ok:
		b = append(b, tagSpanStatus, 2, tagStatusCode, 1)
	default:
		var start int
		b, start = openField(b, tagSpanStatus)
		if r.description != "" {
			b = appendString(b, tagStatusMessage, validText(p.text(r.description)))
		}
		if r.status == codes.Error {
			b = append(b, tagStatusCode, 2)
		}
		b = closeField(b, start)
	}
	r.buf = b
}

// writeIdentity writes what a late decision about the span changes.
func (r *record) writeIdentity(sc trace.SpanContext) {
	b := r.buf
	if ts := sc.TraceState(); ts.Len() > 0 {
		b = appendString(b, tagSpanTraceState, ts.String())
	}
	b = append(b, tagSpanFlags&0x7f|0x80, tagSpanFlags>>7)
	r.buf = binary.LittleEndian.AppendUint32(b, spanFlags(sc.TraceFlags(), r.remote))
}
