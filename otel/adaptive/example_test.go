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

// Alertmanager switches the sampler: by severity, and for alerts of the cart for its route alone.
func ExampleSampler_AlertHandler() {
	sampler, err := adaptive.New(adaptive.WithRoutes(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sampler.Shutdown(context.Background()) }()
	alerts, err := sampler.AlertHandler(adaptive.AlertConfig{
		Rules: append([]adaptive.AlertRule{
			{Match: rule.MustCompile(rule.Spec{Name: "Cart*"}), Rate: 1, Route: "GET /cart"},
		}, adaptive.DefaultAlertRules()...),
		Limit: 30 * time.Minute,
		Token: "from a secret",
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	request := httptest.NewRequest(http.MethodPost, "/adaptive-alerts", strings.NewReader(`{"version":"4","alerts":[
		{"status":"firing","labels":{"alertname":"CartSlow","severity":"warning"},"startsAt":"`+time.Now().Format(time.RFC3339)+`"}]}`))
	request.Header.Set("Authorization", "Bearer from a secret")
	answer := httptest.NewRecorder()
	alerts.ServeHTTP(answer, request)

	fmt.Printf("%d: cart %.2f, offers %.2f\n", answer.Code, sampler.RateOf("GET /cart"), sampler.RateOf("GET /offers"))
	// Output: 200: cart 1.00, offers 0.05
}
