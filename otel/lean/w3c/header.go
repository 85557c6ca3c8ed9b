package w3c

import (
	"net/http"
	"unsafe"

	"go.opentelemetry.io/otel/trace"
)

// The keys as net/http stores them, so that a look-up in the map finds them
// without building the canonical form first.
const (
	traceparentKey = "Traceparent"
	tracestateKey  = "Tracestate"
	baggageKey     = "Baggage"
)

// FromHeader returns the span context that h carries, marked as remote; false
// if there is none or its traceparent breaks a rule of the specification. It
// allocates nothing unless there is a tracestate.
func FromHeader(h http.Header) (trace.SpanContext, bool) {
	v := h[traceparentKey]
	if len(v) != 1 {
		return trace.SpanContext{}, false
	}
	return read(v[0], h[tracestateKey])
}

// ToHeader writes sc into h, in place of what was there. It does nothing if sc
// is not valid; like the official propagator it leaves a tracestate in h alone
// if sc has none. A traceparent costs one allocation.
func ToHeader(h http.Header, sc trace.SpanContext) {
	if sc.IsValid() {
		new(Buffer).ToHeader(h, sc)
	}
}

// Buffer is the memory for one traceparent in a header. Who allocates
// something for each request anyway embeds one there and saves the allocation.
type Buffer struct {
	list [1]string
	text [size]byte
}

// ToHeader is the function ToHeader, with the text in b. h refers to b
// afterwards: b must not be used a second time.
func (b *Buffer) ToHeader(h http.Header, sc trace.SpanContext) {
	if !sc.IsValid() {
		return
	}
	if ts := sc.TraceState(); ts.Len() != 0 {
		h[tracestateKey] = []string{ts.String()}
	}
	// The slice in h is replaced, not written to: h may be a shallow copy of a
	// header that others read.
	spell(&b.text, sc)
	b.list[0] = unsafe.String(&b.text[0], size)
	h[traceparentKey] = b.list[:]
}
