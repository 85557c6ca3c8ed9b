package contextaware_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/contextaware"
	"github.com/tare-trace/tare/otel/rule"
)

func ExampleParse() {
	sampler, err := contextaware.Parse([]byte(`{"default": 0, "rules": [
		{"name": "GET /health*", "probability": 0},
		{"name": "GET **", "kind": "internal", "probability": 1}
	]}`))
	if err != nil {
		panic(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	for _, name := range []string{"GET /healthz", "GET /orders", "POST /orders"} {
		_, span := tp.Tracer("shop").Start(context.Background(), name)
		fmt.Println(name, span.SpanContext().IsSampled())
		span.End()
	}
	_, err = contextaware.Parse([]byte(`{"default": 0, "rules": [{"name": "~(", "probability": 50}]}`))
	fmt.Println(err)
	// Output:
	// GET /healthz false
	// GET /orders true
	// POST /orders false
	// rule 1 {"name":"~("}: probability: 50 is not between 0 (never) and 1 (always)
	// name: pattern "~(": error parsing regexp: missing closing ): `(`
}

type userKey struct{}

func ExampleWithProbability() {
	sampler, err := contextaware.New(0,
		[]contextaware.Rule{{Spec: rule.Spec{Kind: "server"}, Probability: 0.05}},
		contextaware.WithProbability(func(ctx context.Context) (float64, bool) {
			user, _ := ctx.Value(userKey{}).(string)
			return 1, user == "ann" // follow this one everywhere
		}))
	if err != nil {
		panic(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	for _, user := range []string{"ann", "bob"} {
		ctx := context.WithValue(context.Background(), userKey{}, user)
		_, span := tp.Tracer("shop").Start(ctx, "work")
		fmt.Println(user, span.SpanContext().IsSampled())
	}
	// Output:
	// ann true
	// bob false
}
