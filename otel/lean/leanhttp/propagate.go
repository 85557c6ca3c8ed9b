package leanhttp

import (
	"context"
	"net/http"
	"reflect"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/w3c"
)

// carrier moves contexts between requests and headers.
type carrier struct {
	// any is the propagator, if it is none that is known.
	any propagation.TextMapPropagator
	// parent and baggage say which headers the propagator handles, if it is
	// known: then package w3c does its work, without a context in between.
	parent, baggage bool
}

func newCarrier(p propagation.TextMapPropagator) carrier {
	var c carrier
	if !c.know(p) {
		return carrier{any: p}
	}
	return c
}

// composite is the official composition, a slice of propagators. Its type is
// private; what it is composed of can be read nevertheless.
var composite = reflect.TypeOf(propagation.NewCompositeTextMapPropagator())

func (c *carrier) know(p propagation.TextMapPropagator) bool {
	switch p.(type) {
	case w3c.Propagator:
		c.parent, c.baggage = true, true
		return true
	case w3c.TraceContext, propagation.TraceContext:
		c.parent = true
		return true
	case propagation.Baggage:
		c.baggage = true
		return true
	}
	v := reflect.ValueOf(p)
	if v.Type() != composite || v.Kind() != reflect.Slice {
		return false
	}
	for i := range v.Len() {
		part, ok := v.Index(i).Interface().(propagation.TextMapPropagator)
		if !ok || !c.know(part) {
			return false
		}
	}
	return true
}

// extract returns the caller's span context if it is known by itself, and ctx
// with all else that h carries.
func (c *carrier) extract(ctx context.Context, h http.Header) (context.Context, trace.SpanContext) {
	if c.any != nil {
		return c.any.Extract(ctx, propagation.HeaderCarrier(h)), trace.SpanContext{}
	}
	var remote trace.SpanContext
	if c.parent {
		remote, _ = w3c.FromHeader(h)
	}
	if c.baggage {
		ctx = w3c.ExtractBaggage(ctx, propagation.HeaderCarrier(h))
	}
	return ctx, remote
}

// inject writes sc, the span context in ctx, and all else in ctx into h.
func (c *carrier) inject(ctx context.Context, sc trace.SpanContext, h http.Header, mem *w3c.Buffer) {
	if c.any != nil {
		c.any.Inject(ctx, propagation.HeaderCarrier(h))
		return
	}
	if c.parent {
		mem.ToHeader(h, sc)
	}
	if c.baggage {
		w3c.InjectBaggage(ctx, propagation.HeaderCarrier(h))
	}
}
