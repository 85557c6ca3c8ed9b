package leanhttp

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/tare-trace/tare/otel/lean/leanhttp"

// tracer is lean's, or what the API gives for any other provider.
type tracer struct {
	lean *lean.Tracer
	api  trace.Tracer // nil if lean is not
}

func newTracer(p trace.TracerProvider) *tracer {
	if t, ok := lean.TracerOf(p, ScopeName); ok {
		return &tracer{lean: t}
	}
	return &tracer{api: p.Tracer(ScopeName)}
}

// tracers finds the tracer for a request.
type tracers struct {
	fixed *tracer // of the provider that was configured
	last  atomic.Pointer[found]
}

type found struct {
	provider trace.TracerProvider
	tracer   *tracer
}

func (t *tracers) configure(p trace.TracerProvider) {
	if p != nil {
		t.fixed = newTracer(p)
	}
}

func (t *tracers) of(ctx context.Context) *tracer {
	if t.fixed != nil {
		return t.fixed
	}
	p := otel.GetTracerProvider()
	if s := trace.SpanFromContext(ctx); s.SpanContext().IsValid() {
		p = s.TracerProvider()
	}
	if f := t.last.Load(); f != nil && f.provider == p {
		return f.tracer
	}
	tr := newTracer(p)
	if reflect.TypeOf(p).Comparable() { // else == would panic
		t.last.Store(&found{p, tr})
	}
	return tr
}

// spanStart is what WithSpanOptions says for every span.
type spanStart struct {
	config  trace.SpanConfig
	options []trace.SpanStartOption
}

func newSpanStart(kind trace.SpanKind, opts []trace.SpanStartOption) spanStart {
	all := append([]trace.SpanStartOption{trace.WithSpanKind(kind)}, opts...)
	return spanStart{config: trace.NewSpanStartConfig(all...), options: all}
}

// lean returns the same for lean, without the attributes.
func (s *spanStart) lean(name string) lean.Start {
	return lean.Start{
		Name:    name,
		Kind:    s.config.SpanKind(),
		Time:    s.config.Timestamp(),
		Links:   s.config.Links(),
		NewRoot: s.config.NewRoot(),
	}
}
