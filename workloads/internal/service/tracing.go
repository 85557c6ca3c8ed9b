package service

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing is the process' tracing, on or off. There is one: it is what
// OpenTelemetry's global functions return.
type Tracing struct {
	counts   Counts
	client   otlptrace.Client // nil: off
	provider *sdktrace.TracerProvider
}

// NoTracing switches tracing off: spans are started from the no-op provider.
func NoTracing() *Tracing {
	otel.SetTracerProvider(noop.NewTracerProvider())
	propagate()
	return &Tracing{}
}

// StartTracing switches tracing on: the SDK with a batch processor and the
// OTLP exporter over HTTP, all with their defaults (which OTEL_BSP_* and
// OTEL_EXPORTER_OTLP_* change, as the SDK has it) but for what the options say.
func StartTracing(ctx context.Context, provider []sdktrace.TracerProviderOption, client ...otlptracehttp.Option) (*Tracing, error) {
	t := &Tracing{}
	// Before anything logs.
	otel.SetLogger(logr.New(sink{counts: &t.counts, log: log.New(os.Stderr, "opentelemetry: ", 0)}))
	t.client = otlptracehttp.NewClient(client...)
	otlp, err := otlptrace.New(ctx, t.client)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	provider = append(provider, sdktrace.WithBatcher(exporter{otlp, &t.counts}))
	t.provider = sdktrace.NewTracerProvider(provider...)
	otel.SetTracerProvider(t.provider)
	propagate()
	return t, nil
}

func propagate() {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{},
	))
}

// Shutdown flushes the spans and ends the tracing.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Register shows the counts of spans as metrics.
func (t *Tracing) Register(reg *prometheus.Registry) { t.counts.register(reg) }

// Config describes the tracing as it runs.
func (t *Tracing) Config() map[string]any {
	live := readLive(t)
	return map[string]any{
		"tracing_enabled":    live.enabled,
		"tracer_provider":    fmt.Sprintf("%T", otel.GetTracerProvider()),
		"sampler":            live.sampler,
		"sampling_strategy":  live.strategy,
		"sampling_rate":      live.rate,
		"collector_endpoint": live.endpoint,
		"spans_exported":     t.counts.exported.Load(),
		"spans_failed":       t.counts.failed.Load(),
		"spans_dropped":      t.counts.dropped.Load(),
	}
}
