package lean

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// Tracer starts the spans of one instrumentation scope. Besides the API's Start it has Decide,
// StartIn and DropIn, for instrumentation that brings its own memory.
type Tracer struct {
	embedded.Tracer
	origin
}

var _ trace.Tracer = (*Tracer)(nil)

// TracerOf returns tp's tracer with its own type; false if tp is not a provider of this package,
// or a wrapper around one, such as otel.GetTracerProvider() before the provider is set.
func TracerOf(tp trace.TracerProvider, name string, opts ...trace.TracerOption) (*Tracer, bool) {
	p, ok := tp.(*TracerProvider)
	if !ok {
		return nil, false
	}
	return p.tracer(name, opts), true
}

// UsesAttributes tells whether the provider's sampler looks at the attributes that a span starts
// with. If not, an instrumentation asks it without them and only makes them for spans that are
// recorded.
func (t *Tracer) UsesAttributes() bool { return t.p.usesAttributes }

// Start implements trace.Tracer: one allocation for span and context.
func (t *Tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := Start{Name: name}
	if len(options) > 0 {
		s.apply(options)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	var d Decision
	t.decide(ctx, &d, &s)
	if d.Recording() {
		span := new(Span)
		return t.StartIn(span, ctx, &s, &d), span
	}
	span := new(Unrecorded)
	return t.DropIn(span, ctx, &d), span
}
