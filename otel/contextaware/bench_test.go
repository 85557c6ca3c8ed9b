package contextaware

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// benchParameters are those of a server span as otelhttp starts it.
func benchParameters(ctx context.Context) sdktrace.SamplingParameters {
	return sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: trace.TraceID{1}, Name: "GET /orders/{id}", Kind: trace.SpanKindServer,
		Attributes: []attribute.KeyValue{
			attribute.String("http.request.method", "GET"), attribute.String("url.scheme", "http"),
			attribute.String("server.address", "shop"), attribute.String("client.address", "10.0.0.1"),
			attribute.String("url.path", "/orders/42"), attribute.String("network.protocol.version", "1.1"),
		},
	}
}

// Run with -cpu 1,2,8.
func BenchmarkDecision(b *testing.B) {
	root := context.Background()
	for _, c := range []struct {
		name string
		s    sdktrace.Sampler
	}{
		{"of=TraceIDRatioBased", sdktrace.TraceIDRatioBased(0.05)},
		{"of=ParentBased(TraceIDRatioBased)", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.05))},
		{"of=contextaware,rules=0", mustParse(b, `{"default":0.05}`)},
		{"of=contextaware,rules=1,on=name", mustParse(b, `{"default":0.05,"rules":[{"name":"GET /health*","probability":0}]}`)},
		{"of=contextaware,rules=4,on=all", mustParse(b, documented)},
	} {
		for _, parent := range []struct {
			name string
			ctx  context.Context
		}{
			{"root", root}, {"root+baggage", withBaggage(root, b, "user.id", "7")},
			{"parent=sampled", withParent(root, b, 1, "")}, {"parent=dropped", withParent(root, b, 0, "")},
		} {
			b.Run(c.name+"/"+parent.name, func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					p := benchParameters(parent.ctx)
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
