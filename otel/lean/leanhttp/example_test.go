package leanhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

func ExampleNewHandler() {
	tp := lean.NewTracerProvider(lean.WithExporter(discard{})) // in a service: otlphttp.New or otlpgrpc.New
	defer func() { _ = tp.Shutdown(context.Background()) }()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	handler := leanhttp.NewHandler(mux, "api",
		leanhttp.WithTracerProvider(tp),
		leanhttp.WithPropagators(w3c.Propagator{}),
		leanhttp.WithObserver(func(r *http.Request, status int, _ time.Duration) {
			fmt.Println(r.Pattern, status) // an adaptive sampler learns from this
		}),
	)

	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/users/7", nil))
	fmt.Println(tp.Stats().Started)
	// Output:
	// GET /users/{id} 404
	// 1
}

func ExampleNewTransport() {
	tp := lean.NewTracerProvider(lean.WithExporter(discard{}))
	defer func() { _ = tp.Shutdown(context.Background()) }()

	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sc, ok := w3c.FromHeader(r.Header)
		fmt.Println(ok, sc.IsSampled())
	}))
	defer server.Close()
	client := http.Client{Transport: leanhttp.NewTransport(nil, leanhttp.WithTracerProvider(tp), leanhttp.WithPropagators(w3c.Propagator{}))}
	defer client.CloseIdleConnections()
	res, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close() // ends the span
	// Output: true true
}

// Other companies' hosts get neither traceparent nor baggage, and have a client span all the same.
func ExampleWithPropagationTo() {
	tp := lean.NewTracerProvider(lean.WithExporter(discard{}))
	defer func() { _ = tp.Shutdown(context.Background()) }()
	hosts, err := leanhttp.ParseHosts("*.shop.internal", "10.0.0.0/8")
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := leanhttp.NewTransport(nil, leanhttp.WithTracerProvider(tp), leanhttp.WithPropagators(w3c.Propagator{}), leanhttp.WithPropagationTo(hosts))
	client := http.Client{Transport: transport}
	defer client.CloseIdleConnections()

	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Printf("traceparent: %q\n", r.Header.Get("Traceparent"))
	}))
	defer server.Close()
	res, err := client.Get(server.URL) // at 127.0.0.1
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	fmt.Println("spans:", tp.Stats().Started)
	// Output:
	// traceparent: ""
	// spans: 1
}
