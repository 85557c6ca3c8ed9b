package service

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/redact"
)

// official is OpenTelemetry's own pipeline, set up as its documentation says.
type official struct {
	sdk    *sdktrace.TracerProvider
	to     otlptrace.Client
	counts *Counts
	keep   bool
}

func startOfficial(ctx context.Context, s Setup, counts *Counts) (*official, error) {
	o := &official{counts: counts, keep: s.Keep}
	var to []otlptracehttp.Option
	if s.Traces != "" {
		to = append(to, otlptracehttp.WithEndpointURL(s.Traces))
	}
	o.to = otlptracehttp.NewClient(to...)
	otlp, err := otlptrace.New(ctx, o.to)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	var out sdktrace.SpanExporter = exporter{otlp, counts}
	if s.Redact {
		r, err := redact.New(redact.Default())
		if err != nil {
			return nil, err
		}
		out = redact.NewExporter(out, r)
	}
	process := sdktrace.NewBatchSpanProcessor(out)
	sampler := s.Sampler
	if s.Keep {
		if process, err = keep.NewProcessor(process, s.policy()); err != nil {
			return nil, err
		}
		if sampler == nil {
			// The environment's, as the SDK reads it.
			sampler = samplerOf(sdktrace.NewTracerProvider())
		}
		sampler = keep.Sampler(sampler)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(process)}
	if sampler != nil {
		options = append(options, sdktrace.WithSampler(sampler))
	}
	if s.Resource != nil {
		options = append(options, sdktrace.WithResource(s.Resource))
	}
	o.sdk = sdktrace.NewTracerProvider(options...)
	return o, nil
}

func (o *official) provider() trace.TracerProvider     { return o.sdk }
func (o *official) sampler() sdktrace.Sampler          { return samplerOf(o.sdk) }
func (o *official) keeps() bool                        { return o.keep }
func (o *official) endpoint() string                   { return endpointOf(o.to) }
func (o *official) names() string                      { return "otelhttp" }
func (o *official) shutdown(ctx context.Context) error { return o.sdk.Shutdown(ctx) }

func (o *official) spans() spanCounts {
	return spanCounts{o.counts.exported.Load(), o.counts.failed.Load(), o.counts.dropped.Load()}
}

func (o *official) handler(h http.Handler, operation string, learns *adaptive.Sampler) http.Handler {
	h = otelhttp.NewHandler(h, operation)
	if learns != nil {
		h = observed(h, operation, learns)
	}
	return h
}

func (o *official) transport(base http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(base)
}

// samplerOf reads a field that the SDK does not show (v1.47): the sampler may
// come from the environment, by rules of the SDK's own. nil if it is not there.
func samplerOf(provider *sdktrace.TracerProvider) sdktrace.Sampler {
	f := reflect.ValueOf(provider).Elem().FieldByName("sampler")
	if !f.IsValid() || f.Type() != reflect.TypeFor[sdktrace.Sampler]() {
		return nil
	}
	return *(*sdktrace.Sampler)(f.Addr().UnsafePointer())
}

// endpointOf reads where the exporter sends to, which the SDK does not show
// either (v1.47). "" if it is not there.
func endpointOf(client otlptrace.Client) string {
	v := reflect.ValueOf(client)
	if v.Kind() != reflect.Pointer {
		return ""
	}
	config := v.Elem().FieldByName("cfg")
	if config.Kind() != reflect.Struct {
		return ""
	}
	endpoint, insecure := config.FieldByName("Endpoint"), config.FieldByName("Insecure")
	if endpoint.Kind() != reflect.String || insecure.Kind() != reflect.Bool {
		return ""
	}
	scheme := "https://"
	if insecure.Bool() {
		scheme = "http://"
	}
	return scheme + endpoint.String()
}
