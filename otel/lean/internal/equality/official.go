package equality

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// queue is the capacity of both pipelines: more than any program ends, because what is dropped when a
// queue is full depends on time.
const queue = 1 << 15

// never is the delay of both batchers: spans leave when a batch is full or the run flushes.
const never = time.Hour

// A Provider is what both pipelines have.
type Provider interface {
	trace.TracerProvider
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// A Pipeline makes a provider that sends to url.
type Pipeline struct {
	Name string
	New  func(o Options, url string, client *http.Client) (Provider, error)
}

// Official is the SDK with its batch processor and OTLP/HTTP exporter.
var Official = Pipeline{Name: "official", New: newOfficial}

func newOfficial(o Options, url string, client *http.Client) (Provider, error) {
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(url),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, err
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter,
		sdktrace.WithMaxQueueSize(queue), sdktrace.WithBatchTimeout(never), sdktrace.WithBlocking())}
	if o.Sampler != nil {
		options = append(options, sdktrace.WithSampler(o.Sampler))
	}
	if o.Limits != nil {
		options = append(options, sdktrace.WithRawSpanLimits(*o.Limits))
	}
	if o.Resource != nil {
		options = append(options, sdktrace.WithResource(o.Resource))
	}
	if o.IDs != nil {
		options = append(options, sdktrace.WithIDGenerator(o.IDs))
	}
	return sdktrace.NewTracerProvider(options...), nil
}
