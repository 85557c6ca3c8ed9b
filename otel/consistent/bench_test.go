package consistent

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// decisions runs the sampler on fresh trace ids under each of the parents that
// a service sees. Run with -cpu 1,2,8.
func decisions(b *testing.B, s sdktrace.Sampler) {
	parent := func(flags trace.TraceFlags, state string) context.Context {
		ts, err := trace.ParseTraceState(state)
		if err != nil {
			b.Fatal(err)
		}
		return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, 15: 0xff}, SpanID: trace.SpanID{1}, TraceFlags: flags, TraceState: ts,
		}))
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{
		{"root", context.Background()},
		{"parent=sampled", parent(trace.FlagsSampled, "")},
		{"parent=sampled+th", parent(trace.FlagsSampled, "ot=th:0")},
		{"parent=dropped", parent(0, "")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				p := sdktrace.SamplingParameters{ParentContext: c.ctx, Name: "GET /", Kind: trace.SpanKindServer}
				p.TraceID[0] = 1
				for n := uint64(1); pb.Next(); n++ {
					h := n * 0x9e3779b97f4a7c15
					for i := range 8 {
						p.TraceID[8+i] = byte(h >> (8 * i))
					}
					if s.ShouldSample(p).Decision == sdktrace.RecordOnly {
						b.Error("RecordOnly")
					}
				}
			})
		})
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, c := range []struct {
		name string
		s    sdktrace.Sampler
	}{
		{"of=TraceIDRatioBased", sdktrace.TraceIDRatioBased(0.05)},
		{"of=Rate", NewRate(0.05)},
		{"of=ParentBased(TraceIDRatioBased)", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.05))},
		{"of=consistent.ParentBased(Rate)", ParentBased(NewRate(0.05))},
	} {
		b.Run(c.name, func(b *testing.B) { decisions(b, c.s) })
	}
}

func BenchmarkThresholdOf(b *testing.B) {
	ts, err := trace.ParseTraceState("ot=rv:0123456789abcd;th:f333,vendor=x")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ThresholdOf(ts); !ok {
			b.Fatal("absent")
		}
	}
}

func BenchmarkWithThreshold(b *testing.B) {
	ts, err := trace.ParseTraceState("ot=rv:0123456789abcd;th:f333,vendor=x")
	if err != nil {
		b.Fatal(err)
	}
	th := FromProbability(0.25)
	b.ReportAllocs()
	for b.Loop() {
		if WithThreshold(ts, th).Len() != 2 {
			b.Fatal("members")
		}
	}
}
