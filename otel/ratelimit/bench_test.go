package ratelimit

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// BenchmarkDecision shows decisions under overload, where nearly all are "no".
// Run with -cpu 1,2,8.
func BenchmarkDecision(b *testing.B) {
	for _, c := range []struct {
		name string
		s    sdktrace.Sampler
	}{
		{"of=TraceIDRatioBased", sdktrace.TraceIDRatioBased(0.01)},
		{"of=ParentBased(TraceIDRatioBased)", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))},
		{"of=ratelimit,mode=leaky", New(100)},
		{"of=ratelimit,mode=consistent", New(100, WithMode(Consistent))},
		{"of=ratelimit,limit=none", New(1e9)},
	} {
		for _, parent := range []struct {
			name string
			ctx  context.Context
		}{{"root", context.Background()}, {"parent=sampled", remote(b, 1, "")}, {"parent=dropped", remote(b, 0, "")}} {
			b.Run(c.name+"/"+parent.name, func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					p := sdktrace.SamplingParameters{ParentContext: parent.ctx, Name: "GET /", Kind: trace.SpanKindServer}
					p.TraceID[0] = 1
					for n := uint64(1); pb.Next(); n++ {
						h := n * 0x9e3779b97f4a7c15
						for i := range 8 {
							p.TraceID[8+i] = byte(h >> (8 * i))
						}
						if c.s.ShouldSample(p).Decision == sdktrace.RecordOnly {
							b.Error("RecordOnly")
						}
					}
				})
			})
		}
	}
}
