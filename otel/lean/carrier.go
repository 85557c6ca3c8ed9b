package lean

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// spanKey is the key under which the API keeps the span in a context. It is private to the API,
// but a context that is asked for its span gets to see it.
var spanKey = func() any {
	var p keyProbe
	trace.SpanFromContext(&p)
	return p.key
}()

type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any {
	p.key = key
	return nil
}

// carrier is the context of a span. It lives inside the span, so that span and context take one
// allocation. It answers as the parent's context does, except for the span, which is itself.
type carrier[S Span | Unrecorded] struct {
	context.Context
	span *S
}

// Value implements context.Context.
func (c *carrier[S]) Value(key any) any {
	if key == spanKey {
		return c.span
	}
	return c.Context.Value(key)
}

// spanContextOf is trace.SpanContextFromContext, but knows the provider's own contexts without
// asking them.
func spanContextOf(ctx context.Context) trace.SpanContext {
	switch c := ctx.(type) {
	case *carrier[Span]:
		return c.span.sc
	case *carrier[Unrecorded]:
		return c.span.sc
	}
	if s, ok := ctx.Value(spanKey).(trace.Span); ok {
		return s.SpanContext()
	}
	return trace.SpanContext{}
}
