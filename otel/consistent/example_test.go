package consistent_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
)

func Example() {
	tp := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(consistent.ParentBased(consistent.NewRate(1))),
	)
	_, span := tp.Tracer("shop").Start(context.Background(), "GET /")
	fmt.Println(span.SpanContext().TraceState())
	// Output: ot=th:0
}

func ExampleAdjustedCount() {
	ts, err := trace.ParseTraceState("ot=th:f333")
	if err != nil {
		panic(err)
	}
	if th, ok := consistent.ThresholdOf(ts); ok {
		fmt.Printf("sampled at %.3g%%, stands for %.0f\n", 100*th.Probability(), consistent.AdjustedCount(th))
	}
	// Output: sampled at 5%, stands for 20
}

func ExampleThreshold_Round() {
	th := consistent.FromProbability(0.01)
	fmt.Println(th, th.Round(consistent.Precision))
	// Output: fd70a3d70a3d71 fd70a
}

func ExampleWithThreshold() {
	ts, err := trace.ParseTraceState("vendor=x,ot=rv:0123456789abcd;th:8")
	if err != nil {
		panic(err)
	}
	fmt.Println(consistent.WithThreshold(ts, consistent.FromProbability(0.25)))
	fmt.Println(consistent.WithoutThreshold(ts))
	// Output:
	// ot=th:c;rv:0123456789abcd,vendor=x
	// ot=rv:0123456789abcd,vendor=x
}
