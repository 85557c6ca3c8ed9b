package ratelimit_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/ratelimit"
)

func ExampleNew() {
	sampler := ratelimit.New(0.001, ratelimit.WithBurst(2)) // one in 1000 seconds, two at once
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	for range 5 {
		_, span := tp.Tracer("shop").Start(context.Background(), "GET /")
		fmt.Print(span.SpanContext().IsSampled(), " ")
		span.End()
	}
	fmt.Println(sampler.Stats().Sampled)
	// Output: true true false false false 2
}

func ExampleWithMode() {
	sampler := ratelimit.New(100, ratelimit.WithMode(ratelimit.Consistent))
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	_, span := tp.Tracer("shop").Start(context.Background(), "GET /")
	fmt.Println(span.SpanContext().TraceState(), sampler.Stats().Probability)
	// Output: ot=th:0 1
}
