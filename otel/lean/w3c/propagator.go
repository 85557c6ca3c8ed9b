package w3c

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Propagator carries W3C Trace Context and W3C Baggage. Its zero value is
// ready for use.
type Propagator struct{}

// TraceContext carries W3C Trace Context only. Its zero value is ready for use.
type TraceContext struct{}

var (
	_ propagation.TextMapPropagator = Propagator{}
	_ propagation.TextMapPropagator = TraceContext{}
)

// Inject writes ctx's span context and baggage into carrier.
func (Propagator) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	TraceContext{}.Inject(ctx, carrier)
	InjectBaggage(ctx, carrier)
}

// Extract returns ctx with the span context (as a remote one) and the baggage
// that carrier holds, or ctx itself if it holds neither.
func (Propagator) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	return ExtractBaggage(TraceContext{}.Extract(ctx, carrier), carrier)
}

// Fields returns the names of the headers that Inject may set.
func (Propagator) Fields() []string { return []string{"traceparent", "tracestate", "baggage"} }

// Inject writes ctx's span context into carrier.
func (TraceContext) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	sc := trace.SpanContextFromContext(ctx)
	if h, ok := carrier.(propagation.HeaderCarrier); ok {
		ToHeader(http.Header(h), sc)
		return
	}
	if !sc.IsValid() {
		return
	}
	if ts := sc.TraceState(); ts.Len() != 0 {
		carrier.Set("tracestate", ts.String())
	}
	var text [size]byte
	spell(&text, sc)
	carrier.Set("traceparent", string(text[:]))
}

// Extract returns ctx with the span context that carrier holds, as a remote
// one, or ctx itself.
func (TraceContext) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	sc, ok := fromCarrier(carrier)
	if !ok {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}

// Fields returns the names of the headers that Inject may set.
func (TraceContext) Fields() []string { return []string{"traceparent", "tracestate"} }

func fromCarrier(carrier propagation.TextMapCarrier) (trace.SpanContext, bool) {
	switch c := carrier.(type) {
	case propagation.HeaderCarrier:
		return FromHeader(http.Header(c))
	case propagation.ValuesGetter:
		v := c.Values("traceparent")
		if len(v) != 1 {
			return trace.SpanContext{}, false
		}
		return read(v[0], c.Values("tracestate"))
	}
	return read(carrier.Get("traceparent"), []string{carrier.Get("tracestate")})
}

// InjectBaggage writes ctx's baggage into carrier, if there is any.
func InjectBaggage(ctx context.Context, carrier propagation.TextMapCarrier) {
	if baggage.FromContext(ctx).Len() != 0 {
		propagation.Baggage{}.Inject(ctx, carrier)
	}
}

// ExtractBaggage returns ctx with the baggage that carrier holds, or ctx
// itself. Reading it is left to the official propagator, whose limits (64
// members, 8192 bytes) and handling of errors apply.
func ExtractBaggage(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	if h, ok := carrier.(propagation.HeaderCarrier); ok && len(h[baggageKey]) == 0 {
		return ctx
	}
	return propagation.Baggage{}.Extract(ctx, carrier)
}
