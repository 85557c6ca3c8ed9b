package lean

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/tare-trace/tare/otel/wire"
)

// origin is where a span comes from: part of its tracer. Spans embed a pointer to it, which is at
// the same time how they come by the private method that the API demands of every trace.Span
// (embedding embedded.Span itself would cost each span 16 bytes).
type origin struct {
	embedded.Span
	p     *TracerProvider
	scope int // number of the instrumentation scope
}

// Span is a recording span, and holds its context. What is set on it is encoded at once. All its
// methods may be called from many goroutines; after End they do nothing. The zero Span is memory
// for Tracer.StartIn, nothing else.
type Span struct {
	ctx carrier[Span]
	*origin
	sc    trace.SpanContext
	local *localTrace // waits for its decision; nil: does not wait
	mu    sync.Mutex
	rec   *record // nil once the span has ended
}

var _ trace.Span = (*Span)(nil)

// SpanContext is the span's identity.
func (s *Span) SpanContext() trace.SpanContext {
	if s == nil {
		return trace.SpanContext{}
	}
	return s.sc
}

// IsRecording is true until the span ends.
func (s *Span) IsRecording() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec != nil
}

// TracerProvider returns the *lean.TracerProvider that the span came from.
func (s *Span) TracerProvider() trace.TracerProvider { return s.p }

// lock returns the record of a span that has not ended, with the span locked; or nil.
func (s *Span) lock() *record {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	r := s.rec
	if r == nil {
		s.mu.Unlock()
	}
	return r
}

// SetName replaces the name.
func (s *Span) SetName(name string) {
	if r := s.lock(); r != nil {
		r.name = name
		s.mu.Unlock()
	}
}

// SetStatus sets the status, unless a higher one was set (Ok > Error > Unset). The description
// belongs to errors only.
func (s *Span) SetStatus(code codes.Code, description string) {
	r := s.lock()
	if r == nil {
		return
	}
	if code >= r.status {
		r.status, r.description = code, ""
		if code == codes.Error {
			r.description = description
		}
	}
	s.mu.Unlock()
}

// SetAttributes sets attributes; the last value of a key counts.
func (s *Span) SetAttributes(kvs ...attribute.KeyValue) {
	if len(kvs) == 0 {
		return
	}
	r := s.lock()
	if r == nil {
		return
	}
	for i := range kvs {
		r.setAttribute(s.p, &kvs[i])
	}
	s.mu.Unlock()
}

// SetString is SetAttributes(key.String(v)) without the slice.
func (s *Span) SetString(key attribute.Key, v string) {
	r := s.lock()
	if r == nil {
		return
	}
	if s.p.redactor != nil {
		kv := key.String(v)
		r.setAttribute(s.p, &kv)
	} else if at, ok := r.place(string(key), s.p.limits.AttributeCountLimit); ok {
		tail := len(r.buf)
		r.buf = wire.AppendStringValue(r.buf, wire.SpanAttribute, wire.Text(string(key)), wire.Text(truncate(v, s.p.limits.AttributeValueLengthLimit)))
		r.settle(at, tail, string(key))
	}
	s.mu.Unlock()
}

// SetInt is SetAttributes(key.Int64(v)) without the slice.
func (s *Span) SetInt(key attribute.Key, v int64) { s.setScalar(key.Int64(v)) }

// SetFloat is SetAttributes(key.Float64(v)) without the slice.
func (s *Span) SetFloat(key attribute.Key, v float64) { s.setScalar(key.Float64(v)) }

// SetBool is SetAttributes(key.Bool(v)) without the slice.
func (s *Span) SetBool(key attribute.Key, v bool) { s.setScalar(key.Bool(v)) }

func (s *Span) setScalar(kv attribute.KeyValue) {
	if r := s.lock(); r != nil {
		r.setAttribute(s.p, &kv)
		s.mu.Unlock()
	}
}

// SetStrings is SetAttributes(key.StringSlice(v)) without the slices; v is copied.
func (s *Span) SetStrings(key attribute.Key, v []string) {
	r := s.lock()
	if r == nil {
		return
	}
	if s.p.redactor != nil {
		kv := key.StringSlice(v)
		r.setAttribute(s.p, &kv)
	} else if at, ok := r.place(string(key), s.p.limits.AttributeCountLimit); ok {
		tail := len(r.buf)
		r.buf = appendStringsKV(r.buf, wire.SpanAttribute, string(key), v, s.p.limits.AttributeValueLengthLimit)
		r.settle(at, tail, string(key))
	}
	s.mu.Unlock()
}

// setAttribute writes one attribute of the span, or replaces the one with its key.
func (r *record) setAttribute(p *TracerProvider, kv *attribute.KeyValue) {
	if p.redactor != nil {
		shown, ok := p.redactor.Attribute(*kv)
		if !ok {
			return
		}
		kv = &shown
	}
	at, ok := r.place(string(kv.Key), p.limits.AttributeCountLimit)
	if !ok {
		return
	}
	tail := len(r.buf)
	r.buf = appendKeyValue(r.buf, wire.SpanAttribute, kv, p.attributeLimits)
	r.settle(at, tail, string(kv.Key))
}
