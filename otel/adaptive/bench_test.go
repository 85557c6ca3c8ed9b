package adaptive_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/rule"
)

// BenchmarkShouldSample compares with the SDK's samplers. To compare pairs,
// run with -count and let benchstat group by /sampler.
func BenchmarkShouldSample(b *testing.B) {
	for _, percent := range []int{1, 100} {
		rate := float64(percent) / 100
		c := adaptive.DefaultConfig()
		c.BaseRate = rate
		routed := start(b, adaptive.WithConfig(c), adaptive.WithRoutes(0))
		uneven := start(b, adaptive.WithConfig(c), adaptive.WithRoutes(0))
		for i := range 64 {
			routed.Observe(adaptive.Observation{Route: name(i)})
			uneven.Observe(adaptive.Observation{Route: name(i), Failed: i%8 == 0})
		}
		routed.Update()
		uneven.Update()
		ruled := start(b, adaptive.WithConfig(c), adaptive.WithRules(
			adaptive.Never(rule.MustCompile(rule.Spec{Name: "GET /health*"})),
			adaptive.Base(rule.MustCompile(rule.Spec{Name: "GET /route/7"}), rate/2)))
		limited := c
		limited.Budget.TracesPerSecond = 1000
		for _, s := range []struct {
			name    string
			sampler sdktrace.Sampler
		}{
			{"TraceIDRatioBased", sdktrace.TraceIDRatioBased(rate)},
			{"adaptive", start(b, adaptive.WithConfig(c))},
			{"adaptive-routes", routed},
			{"adaptive-routes-boosted", uneven},
			{"ParentBased", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(rate))},
			{"adaptive-rules", ruled},
			{"adaptive-budget", start(b, adaptive.WithConfig(limited), adaptive.WithRoutes(0))},
		} {
			b.Run(fmt.Sprintf("rate=%d%%/sampler=%s", percent, s.name), func(b *testing.B) { decide(b, s.sampler) })
		}
	}
}

// BenchmarkShouldSampleChild is the decision about a span with a remote,
// sampled parent.
func BenchmarkShouldSampleChild(b *testing.B) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 1}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	p := sdktrace.SamplingParameters{
		ParentContext: trace.ContextWithRemoteSpanContext(context.Background(), parent),
		TraceID:       parent.TraceID(), Name: "GET /", Kind: trace.SpanKindServer,
	}
	for _, s := range []struct {
		name    string
		sampler sdktrace.Sampler
	}{
		{"ParentBased", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.05))},
		{"adaptive", start(b)},
	} {
		b.Run("sampler="+s.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				p := p
				for pb.Next() {
					s.sampler.ShouldSample(p)
				}
			})
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, routes := range []int{0, 64} {
		var opts []adaptive.Option
		if routes > 0 {
			opts = append(opts, adaptive.WithRoutes(routes))
		}
		s := start(b, opts...)
		names := make([]string, max(routes, 1))
		for i := range names {
			names[i] = name(i)
		}
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				o := adaptive.Observation{Duration: 3 * time.Millisecond}
				for i := 0; pb.Next(); i++ {
					o.Route = names[i%len(names)]
					s.Observe(o)
				}
			})
		})
	}
}

func name(i int) string { return fmt.Sprintf("GET /route/%d", i) }

func start(b *testing.B, opts ...adaptive.Option) *adaptive.Sampler {
	b.Helper()
	s, err := adaptive.New(opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

var goroutine atomic.Uint64

// decide asks for root spans with random trace ids.
func decide(b *testing.B, s sdktrace.Sampler) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		names := make([]string, 64)
		for i := range names {
			names[i] = name(i)
		}
		p := sdktrace.SamplingParameters{ParentContext: context.Background(), Kind: trace.SpanKindServer}
		x := goroutine.Add(1) * 0x9E3779B97F4A7C15
		for i := 0; pb.Next(); i++ {
			x ^= x << 13 // xorshift64
			x ^= x >> 7
			x ^= x << 17
			binary.BigEndian.PutUint64(p.TraceID[8:], x)
			p.Name = names[i%64]
			s.ShouldSample(p)
		}
	})
}
