// Command hello is an example of a service to measure (docs/bench.md): a handler, a
// health check, and tracing by the OpenTelemetry SDK that the environment switches on.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "host:port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen string) error {
	var hello http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "hello") // the client may be gone
	})
	config := map[string]any{"tracing_enabled": false}
	if os.Getenv("TRACING") == "on" {
		exporter, err := otlptracehttp.New(ctx) // OTEL_EXPORTER_OTLP_ENDPOINT
		if err != nil {
			return err
		}
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter)) // OTEL_TRACES_SAMPLER
		defer func() { _ = provider.Shutdown(context.WithoutCancel(ctx)) }()
		hello = otelhttp.NewHandler(hello, "hello", otelhttp.WithTracerProvider(provider))
		config = map[string]any{"tracing_enabled": true, "sampling_rate": json.Number(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /hello", hello)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(config) // the client may be gone
	})
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
