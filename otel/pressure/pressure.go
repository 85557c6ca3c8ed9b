// Package pressure measures how hard it is for an exporter of the official SDK to get spans to the
// collector, for samplers: 0 while every export is accepted, towards 1 while the collector refuses
// exports (429, 503, RESOURCE_EXHAUSTED), is not there, or takes long.
//
//	exporter := pressure.NewExporter(official)
//	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(exporter))
//	sampler.PollPressure(exporter.Pressure) // of package adaptive
//
// Each failed export halves what is missing from 1: 0.5, 0.75 and so on, up to 0.94. Each accepted one
// halves the pressure; without exports it halves every 10 s. An export that has been under way for d,
// with all its attempts, counts d/30 s, if that is more.
//
// The SDK's batch processor does not tell how full its queue is: it fills while an export lasts, which
// is what is seen here. lean.TracerProvider has a method Pressure that knows its queue, too.
package pressure

import (
	"context"
	"errors"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/internal/pressure"
)

// Exporter measures the pressure of an exporter of the official SDK.
type Exporter struct {
	next  sdktrace.SpanExporter
	gauge pressure.Gauge
}

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// NewExporter measures what next does.
func NewExporter(next sdktrace.SpanExporter) *Exporter { return &Exporter{next: next} }

// Pressure is the pressure now, 0 to 1.
func (e *Exporter) Pressure() float64 { return e.gauge.Value() }

// ExportSpans implements [sdktrace.SpanExporter]. Every error but the context's end counts as a
// refusal: after how many attempts, and why, the official exporters do not tell.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.gauge.Begin()
	err := e.next.ExportSpans(ctx, spans)
	if err != nil && !errors.Is(err, context.Canceled) {
		e.gauge.Refused()
	}
	e.gauge.End(err == nil)
	return err
}

// Shutdown implements [sdktrace.SpanExporter].
func (e *Exporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }
