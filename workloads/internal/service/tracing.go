package service

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tare-trace/tare/otel/adaptive"
)

// pipeline builds spans, sends them, and instruments what makes them.
type pipeline interface {
	provider() trace.TracerProvider
	// sampler in use, as the provider has it; nil if it cannot be told.
	sampler() sdktrace.Sampler
	keeps() bool
	endpoint() string // that spans are sent to: scheme, host and port; "" if it cannot be told
	spans() spanCounts
	// handler with a span for each request. The sampler, if it learns, learns
	// from every request.
	handler(h http.Handler, operation string, learns *adaptive.Sampler) http.Handler
	// transport with a span for each call, and the trace's context in its headers.
	transport(base http.RoundTripper) http.RoundTripper
	names() string // of the instrumentation
	shutdown(ctx context.Context) error
}

// spanCounts say what became of the spans to be sent.
type spanCounts struct{ exported, failed, dropped uint64 }

// Tracing is the process' tracing, on or off. There is one: it is what
// OpenTelemetry's global functions return.
type Tracing struct {
	setup    Setup
	pipeline pipeline // nil: off
	learns   *adaptive.Sampler
}

// NoTracing switches tracing off: spans are started from the no-op provider.
func NoTracing() *Tracing {
	otel.SetTracerProvider(noop.NewTracerProvider())
	propagate()
	return &Tracing{}
}

// StartTracing switches tracing on: a batching provider and an OTLP exporter over
// HTTP, all with their defaults (which OTEL_BSP_* and OTEL_EXPORTER_OTLP_* change)
// but for what the setup says.
func StartTracing(ctx context.Context, s Setup) (*Tracing, error) {
	t := &Tracing{setup: s}
	t.learns, _ = s.Sampler.(*adaptive.Sampler)
	counts := &Counts{}
	// Before anything logs.
	otel.SetLogger(logr.New(sink{counts: counts, log: log.New(os.Stderr, "opentelemetry: ", 0)}))
	var err error
	if s.Pipeline == Lean {
		t.pipeline, err = startLean(s)
	} else {
		t.pipeline, err = startOfficial(ctx, s, counts)
	}
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(t.pipeline.provider())
	propagate()
	return t, nil
}

func propagate() {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{},
	))
}

// Handler with a span for each request, if tracing is on.
func (t *Tracing) Handler(h http.Handler, operation string) http.Handler {
	if t.pipeline == nil {
		return h
	}
	return t.pipeline.handler(h, operation, t.learns)
}

// Transport with a span for each call and the trace's context in its headers, if
// tracing is on.
func (t *Tracing) Transport(base http.RoundTripper) http.RoundTripper {
	if t.pipeline == nil {
		return base
	}
	return t.pipeline.transport(base)
}

// Shutdown flushes the spans and ends the tracing.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.pipeline == nil {
		return nil
	}
	err := t.pipeline.shutdown(ctx)
	if t.learns != nil {
		err = errors.Join(err, t.learns.Shutdown(ctx))
	}
	return err
}

// Register shows the counts of spans as metrics.
func (t *Tracing) Register(reg *prometheus.Registry) {
	for _, m := range []struct {
		name, help string
		of         func(spanCounts) uint64
	}{
		{"otel_spans_exported_total", "Spans that the collector accepted.", func(c spanCounts) uint64 { return c.exported }},
		{"otel_spans_failed_total", "Spans whose export failed or that the collector rejected.", func(c spanCounts) uint64 { return c.failed }},
		{"otel_spans_dropped_total", "Spans that were dropped because the queue to the exporter was full.", func(c spanCounts) uint64 { return c.dropped }},
	} {
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: m.name, Help: m.help},
			func() float64 { return float64(m.of(t.spans())) },
		))
	}
}

func (t *Tracing) spans() spanCounts {
	if t.pipeline == nil {
		return spanCounts{}
	}
	return t.pipeline.spans()
}

// AdaptiveAlerts receives Alertmanager's webhooks for the adaptive sampler.
func (t *Tracing) AdaptiveAlerts() (http.Handler, error) {
	if t.learns == nil || t.setup.AlertToken == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			WriteError(w, http.StatusNotFound, "no alerts are received: that takes the adaptive sampler and ALERT_TOKEN")
		}), nil
	}
	return t.learns.AlertHandler(adaptive.AlertConfig{Token: t.setup.AlertToken})
}

// AdaptiveMetrics answers with the state of the adaptive sampler.
func (t *Tracing) AdaptiveMetrics() http.Handler {
	if t.learns != nil {
		return t.learns.StateHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteError(w, http.StatusNotFound, "there are no adaptive metrics: the sampler in use is not the adaptive one")
	})
}
