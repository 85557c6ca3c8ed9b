// Command logs is an example of a service that needs no trace backend (docs/logs.md): it writes its spans
// into a file as structured logs, and its own logs with the ids of their spans. It asks itself for three
// orders, one of which fails, and ends.
//
//	go run ./docs/examples/logs spans.jsonl
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanhttp"
	"github.com/tare-trace/tare/otel/lean/logfile"
	"github.com/tare-trace/tare/otel/lean/w3c"
	"github.com/tare-trace/tare/otel/slogtrace"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("give the file that spans are written to")
	}
	if err := run(context.Background(), os.Args[1], os.Stderr); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, logs io.Writer) (err error) {
	exporter, err := logfile.New(logfile.Config{Path: path, PerRequest: true})
	if err != nil {
		return err
	}
	provider := lean.NewTracerProvider(lean.WithExporter(exporter),
		lean.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"))))
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }() // writes what waits
	logger := slog.New(slogtrace.New(slog.NewJSONHandler(logs, nil)))
	tracer := provider.Tracer("shop")

	order := func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "charge")
		defer span.End()
		if r.URL.Query().Get("card") == "none" {
			span.SetStatus(codes.Error, "no card")
			logger.ErrorContext(ctx, "the order is not paid", "reason", "no card")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		logger.InfoContext(ctx, "paid")
	}
	with := []leanhttp.Option{leanhttp.WithTracerProvider(provider), leanhttp.WithPropagators(w3c.Propagator{})}
	server := httptest.NewServer(leanhttp.NewHandler(http.HandlerFunc(order), "order", with...))
	defer server.Close()
	client := http.Client{Transport: leanhttp.NewTransport(nil, with...)}
	for _, card := range []string{"1", "none", "2"} {
		ctx, span := tracer.Start(ctx, "buy")
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/order?card="+card, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("the order: %w", err)
		}
		_ = response.Body.Close() // it is empty
		span.End()
	}
	return nil
}
