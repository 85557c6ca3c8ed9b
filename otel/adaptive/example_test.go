package adaptive_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/rule"
)

// A service with one rate, configured by ADAPTIVE_* variables.
func Example() {
	sampler, err := adaptive.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sampler.Shutdown(context.Background()) }()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	defer func() { _ = provider.Shutdown(context.Background()) }()

	http.Handle("/adaptive-metrics", sampler.StateHandler())

	// For every request:
	sampler.Observe(adaptive.Observation{Failed: true, Duration: 20 * time.Millisecond})

	fmt.Printf("%.2f\n", sampler.Rate())
	sampler.Update() // or 30 s later
	fmt.Printf("%.2f\n", sampler.Rate())
	// Output:
	// 0.05
	// 0.15
}

// A rate for each route, and a budget for all of them; health checks and
// authentication are never traced.
func ExampleNew_routes() {
	config := adaptive.DefaultConfig()
	config.BaseRate = 0.1
	config.Budget.TracesPerSecond = 50
	sampler, err := adaptive.New(
		adaptive.WithConfig(config),
		adaptive.WithRoutes(0),
		adaptive.WithRules(
			adaptive.Never(rule.MustCompile(rule.Spec{Name: "GET /health*"})),
			adaptive.Never(rule.MustCompile(rule.Spec{Name: "* /auth/**"})),
		),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sampler.Shutdown(context.Background()) }()

	sampler.Observe(adaptive.Observation{Route: "GET /cart", Failed: true})
	sampler.Observe(adaptive.Observation{Route: "GET /offers"})
	sampler.Update()
	fmt.Printf("cart %.1f, offers %.1f\n", sampler.RateOf("GET /cart"), sampler.RateOf("GET /offers"))
	// Output: cart 0.3, offers 0.1
}

// An operator raises the rate for a quarter of an hour.
func ExampleSampler_IncidentHandler() {
	sampler, err := adaptive.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sampler.Shutdown(context.Background()) }()

	request := httptest.NewRequest(http.MethodPost, "/adaptive-incident",
		strings.NewReader(`{"rate":0.5, "duration":"15m", "reason":"checkout is slow"}`))
	answer := httptest.NewRecorder()
	sampler.IncidentHandler().ServeHTTP(answer, request)

	fmt.Printf("%d: %.2f\n", answer.Code, sampler.Rate())
	sampler.EndIncident("found it")
	fmt.Printf("%.2f\n", sampler.Rate())
	// Output:
	// 200: 0.50
	// 0.05
}
