package keep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

// nowhere is an exporter that discards: the cost up to the encoder is measured.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

var benchAttributes = []attribute.KeyValue{
	attribute.String("http.request.method", "GET"),
	attribute.String("url.path", "/api/basic"),
	attribute.String("server.address", "example.com"),
	attribute.Int("http.response.status_code", 200),
	attribute.Bool("cache", false),
}

func request(tracer trace.Tracer, children int, failed bool) {
	ctx, root := tracer.Start(context.Background(), "GET /", trace.WithSpanKind(trace.SpanKindServer))
	root.SetAttributes(benchAttributes...)
	for range children {
		_, s := tracer.Start(ctx, "query", trace.WithSpanKind(trace.SpanKindClient))
		s.SetAttributes(benchAttributes...)
		s.End()
	}
	if failed {
		fail(root)
	}
	root.End()
}

// BenchmarkTrace compares a local trace of 1 and 6 spans with 5 attributes each:
//
//	drop      the head drops, nothing is recorded
//	record    the SDK records, a processor does nothing
//	dropped   keep buffers and drops; minus "record" it is what this package costs
//	all       dropped with every kind of reason configured
//	kept      keep exports, as the root failed
//	sampled   AlwaysSample and the SDK's batch processor
func BenchmarkTrace(b *testing.B) {
	batch := func() sdktrace.SpanProcessor {
		return sdktrace.NewBatchSpanProcessor(nowhere{}, sdktrace.WithMaxQueueSize(1<<16))
	}
	withKeep := func(p keep.Policy) sdktrace.SpanProcessor {
		processor, err := keep.NewProcessor(batch(), p)
		if err != nil {
			b.Fatal(err)
		}
		return processor
	}
	errorsOnly := keep.Policy{Errors: true, ServerErrors: true, SlowerThan: time.Second}
	all := errorsOnly
	all.Learn.Quantile = 0.9999
	all.SlowerThanByName = map[string]time.Duration{"GET /report": time.Minute}
	all.Rules = []*rule.Rule{rule.MustCompile(rule.Spec{Attributes: map[string]string{"user.tier": "gold"}})}
	never := sdktrace.ParentBased(sdktrace.NeverSample())
	for _, c := range []struct {
		name      string
		sampler   sdktrace.Sampler
		processor func() sdktrace.SpanProcessor
		failed    bool
	}{
		{"drop", never, batch, false},
		{"record", keep.Sampler(never), func() sdktrace.SpanProcessor { return discard{} }, false},
		{"dropped", keep.Sampler(never), func() sdktrace.SpanProcessor { return withKeep(errorsOnly) }, false},
		{"all", keep.Sampler(never), func() sdktrace.SpanProcessor { return withKeep(all) }, false},
		{"kept", keep.Sampler(never), func() sdktrace.SpanProcessor { return withKeep(errorsOnly) }, true},
		{"sampled", sdktrace.AlwaysSample(), batch, false},
	} {
		for _, children := range []int{0, 5} {
			b.Run(fmt.Sprintf("%s/spans=%d", c.name, 1+children), func(b *testing.B) {
				provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(c.sampler), sdktrace.WithSpanProcessor(c.processor()))
				defer provider.Shutdown(context.Background()) //nolint:errcheck // a benchmark's end
				tracer := provider.Tracer("bench")
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						request(tracer, children, c.failed)
					}
				})
			})
		}
	}
}

// BenchmarkProcessor is the processor alone: the start and end of a local root,
// and of five children, that are dropped.
func BenchmarkProcessor(b *testing.B) {
	for _, children := range []int{0, 5} {
		b.Run(fmt.Sprintf("spans=%d", 1+children), func(b *testing.B) {
			processor, err := keep.NewProcessor(discard{}, keep.Policy{Errors: true, ServerErrors: true, SlowerThan: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			defer processor.Shutdown(context.Background()) //nolint:errcheck // a benchmark's end
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(sdktrace.NeverSample())))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var spans []sdktrace.ReadWriteSpan
				ctx, root := provider.Tracer("bench").Start(context.Background(), "GET /", trace.WithSpanKind(trace.SpanKindServer))
				root.SetAttributes(benchAttributes...)
				for range children {
					_, s := provider.Tracer("bench").Start(ctx, "query")
					s.SetAttributes(benchAttributes...)
					spans = append(spans, s.(sdktrace.ReadWriteSpan))
				}
				spans = append(spans, root.(sdktrace.ReadWriteSpan))
				for pb.Next() {
					processor.OnStart(context.Background(), spans[len(spans)-1])
					for _, s := range spans {
						processor.OnEnd(s)
					}
				}
			})
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	for name, policy := range map[string]keep.Policy{
		"errors": {Errors: true, SlowerThan: time.Second},
		"learn":  {Errors: true, Learn: keep.Learn{Quantile: 0.99, After: 100}},
		"rule": {Errors: true, Rules: []*rule.Rule{
			rule.MustCompile(rule.Spec{Attributes: map[string]string{"user.tier": "gold"}})}},
	} {
		b.Run(name, func(b *testing.B) {
			p := compile(b, policy)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var v keep.Verdict
					p.Observe(&v, keep.Ended{Name: "GET /", LocalRoot: true, Duration: time.Millisecond, Attributes: benchAttributes})
				}
			})
		})
	}
}
