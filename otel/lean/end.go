package lean

import (
	"fmt"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/wire"
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

// writeEnd writes the fields that can change until the end of a span.
func (r *record) writeEnd(p *TracerProvider, end int64) {
	b := wire.AppendBytes(r.buf, wire.SpanName, wire.Text(p.text(r.name)))
	b = wire.AppendFixed64(b, wire.SpanEnd, notNegative(end))
	b = appendCount(b, wire.SpanDroppedAttributes, r.droppedAttrs)
	if len(r.events) > 0 { // the SDK tells what was dropped only beside what was not
		b = appendCount(b, wire.SpanDroppedEvents, r.droppedEvents)
	}
	if len(r.links) > 0 {
		b = appendCount(b, wire.SpanDroppedLinks, r.droppedLinks)
	}
	switch r.status {
	case codes.Unset:
		b = append(b, wire.SpanStatus, 0) // the official exporter always writes a status
	case codes.Ok:
		b = append(b, wire.SpanStatus, 2, wire.StatusCode, wire.StatusOK)
	default:
		var start int
		b, start = wire.Open(b, wire.SpanStatus, 1)
		if r.description != "" {
			b = wire.AppendBytes(b, wire.StatusMessage, wire.Text(p.text(r.description)))
		}
		if r.status == codes.Error {
			b = append(b, wire.StatusCode, wire.StatusError)
		}
		b = wire.Close(b, start, 1)
	}
	r.buf = b
}

// writeIdentity writes the fields that depend on the sampling decision, which keep may take late.
func (r *record) writeIdentity(sc trace.SpanContext) {
	b := r.buf
	if ts := sc.TraceState(); ts.Len() > 0 {
		b = wire.AppendBytes(b, wire.SpanTraceState, ts.String())
	}
	r.buf = wire.AppendFixed32(b, wire.SpanFlags, spanFlags(sc.TraceFlags(), r.remote))
}

// appendCount appends a uint32 field, or nothing for 0, which is proto3's default.
func appendCount(b []byte, tag byte, n int) []byte {
	if n <= 0 {
		return b
	}
	return wire.AppendVarint(b, tag, min(uint64(n), 1<<32-1))
}
