package redact

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// NewProcessor returns a span processor that hands redacted spans on to next.
// It does its work in OnEnd, that is in the goroutine that ends the span and
// before the request is answered. Use it where a processor behind it must not
// see secrets (one that logs, counts, or sends at once); before an exporter,
// NewExporter does the same work in the goroutine of the batch.
//
// OnStart is handed on as it is, for next may want to write to the span: what
// next reads there is not redacted. It panics if next or r is nil.
func NewProcessor(next sdktrace.SpanProcessor, r *Redactor) sdktrace.SpanProcessor {
	if next == nil || r == nil {
		panic("redact: NewProcessor needs a processor and a Redactor")
	}
	return &processor{next, r}
}

type processor struct {
	sdktrace.SpanProcessor
	redactor *Redactor
}

func (p *processor) OnEnd(s sdktrace.ReadOnlySpan) { p.SpanProcessor.OnEnd(p.redactor.Span(s)) }

// NewExporter returns an exporter that hands redacted spans on to next. This is
// the way to use the package with the SDK's batch span processor: spans that
// are not sampled, or dropped because the queue is full, cost nothing, and
// requests do not wait. It panics if next or r is nil.
func NewExporter(next sdktrace.SpanExporter, r *Redactor) sdktrace.SpanExporter {
	if next == nil || r == nil {
		panic("redact: NewExporter needs an exporter and a Redactor")
	}
	return &exporter{next, r}
}

type exporter struct {
	next     sdktrace.SpanExporter
	redactor *Redactor
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	var out []sdktrace.ReadOnlySpan
	for i, s := range spans {
		v, changed := e.redactor.view(s)
		if !changed {
			continue
		}
		if out == nil { // the slice is the batch processor's, and may be in other hands
			out = append([]sdktrace.ReadOnlySpan(nil), spans...)
		}
		out[i] = v
	}
	if out == nil {
		out = spans
	}
	return e.next.ExportSpans(ctx, out)
}

func (e *exporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }
