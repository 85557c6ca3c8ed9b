package w3c_test

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

func headers() map[string]http.Header {
	return map[string]http.Header{
		"none":       {"User-Agent": {"x"}, "Accept": {"*/*"}},
		"parent":     {"User-Agent": {"x"}, "Traceparent": {parent}},
		"tracestate": {"Traceparent": {parent}, "Tracestate": {"ot=th:8"}},
	}
}

func TestAllocations(t *testing.T) {
	ctx := context.Background()
	hs := headers()
	out := http.Header{}
	sc, _ := w3c.FromHeader(hs["parent"])
	for _, c := range []struct {
		name string
		f    func()
		want float64
	}{
		{"FromHeader none", func() { w3c.FromHeader(hs["none"]) }, 0},
		{"FromHeader parent", func() { w3c.FromHeader(hs["parent"]) }, 0},
		{"Extract none", func() { w3c.Propagator{}.Extract(ctx, propagation.HeaderCarrier(hs["none"])) }, 0},
		{"Inject none", func() { w3c.Propagator{}.Inject(ctx, propagation.HeaderCarrier(out)) }, 0},
		{"ToHeader", func() { w3c.ToHeader(out, sc) }, 1},
	} {
		if got := testing.AllocsPerRun(100, c.f); got != c.want && !race.Enabled {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	ctx := context.Background()
	for name, h := range headers() {
		for who, p := range map[string]propagation.TextMapPropagator{"official": official, "w3c": w3c.Propagator{}} {
			b.Run(name+"/"+who, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.Extract(ctx, propagation.HeaderCarrier(h))
				}
			})
		}
		b.Run(name+"/FromHeader", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w3c.FromHeader(h)
			}
		})
	}
}

func BenchmarkInject(b *testing.B) {
	sc, _ := w3c.FromHeader(headers()["parent"])
	ctx := trace.ContextWithSpanContext(context.Background(), sc)
	for who, p := range map[string]propagation.TextMapPropagator{"official": official, "w3c": w3c.Propagator{}} {
		b.Run(who, func(b *testing.B) {
			b.ReportAllocs()
			h := http.Header{}
			for b.Loop() {
				p.Inject(ctx, propagation.HeaderCarrier(h))
			}
		})
	}
}
