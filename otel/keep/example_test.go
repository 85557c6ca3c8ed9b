package keep_test

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

// The head samples nothing here; the failed request has a trace all the same.
func Example() {
	exporter := tracetest.NewInMemoryExporter() // a real one, for example otlptracehttp's
	processor, err := keep.NewProcessor(sdktrace.NewBatchSpanProcessor(exporter), keep.Policy{
		Errors:       true,
		ServerErrors: true,
		SlowerThan:   time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(keep.Sampler(consistent.ParentBased(consistent.NewRate(0)))),
		sdktrace.WithSpanProcessor(processor),
	)
	defer provider.Shutdown(context.Background()) //nolint:errcheck // the example ends

	tracer := provider.Tracer("shop")
	for _, path := range []string{"/cart", "/pay"} {
		ctx, request := tracer.Start(context.Background(), "GET "+path)
		_, query := tracer.Start(ctx, "query for "+path)
		if path == "/pay" {
			query.SetStatus(codes.Error, "deadlock")
		}
		query.End()
		request.End()
	}
	provider.ForceFlush(context.Background()) //nolint:errcheck // in memory
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// query for /pay
	// GET /pay
}

// With exact counts every exported span says for how many it stands: those of a
// kept trace for themselves.
func ExamplePolicy_exactCounts() {
	exporter := tracetest.NewInMemoryExporter()
	processor, err := keep.NewProcessor(sdktrace.NewSimpleSpanProcessor(exporter),
		keep.Policy{Errors: true, ExactCounts: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	head := keep.Sampler(consistent.ParentBased(consistent.NewRate(0.25)))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(head), sdktrace.WithSpanProcessor(processor))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // the example ends

	_, span := provider.Tracer("shop").Start(context.Background(), "pay")
	span.SetStatus(codes.Error, "declined")
	span.End()
	fmt.Println(exporter.GetSpans()[0].SpanContext.TraceState())
	// Output: ot=th:0
}

// Health checks are not recorded, whatever happens to them.
func ExampleSampler_exceptions() {
	health := rule.MustCompile(rule.Spec{Name: "GET /health/**", Kind: "server"})
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(keep.Sampler(sdktrace.NeverSample(), health)),
	)
	for _, name := range []string{"GET /health/ready", "GET /pay"} {
		_, span := provider.Tracer("shop").Start(context.Background(), name, trace.WithSpanKind(trace.SpanKindServer))
		fmt.Println(name, span.IsRecording(), span.SpanContext().IsSampled())
		span.End()
	}
	// Output:
	// GET /health/ready false false
	// GET /pay true false
}

// A pipeline of its own feeds a verdict and asks for the decision.
func ExamplePolicy_Compile() {
	policy, err := keep.Policy{Errors: true, SlowerThan: time.Second}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	var v keep.Verdict // of one local trace
	policy.Observe(&v, keep.Ended{Name: "query", Duration: 3 * time.Millisecond})
	policy.Observe(&v, keep.Ended{Name: "GET /", LocalRoot: true, Duration: 2 * time.Second})
	fmt.Println(policy.Decide(v))
	// Output: true slow
}
