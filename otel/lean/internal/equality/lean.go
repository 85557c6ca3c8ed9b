package equality

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// Lean is lean's provider with its OTLP/HTTP exporter.
var Lean = Pipeline{Name: "lean", New: newLean}

func newLean(o Options, url string, client *http.Client) (Provider, error) {
	exporter, err := otlphttp.New(otlphttp.WithEndpointURL(url), otlphttp.WithHTTPClient(client), otlphttp.WithRetry(otlphttp.RetryConfig{}))
	if err != nil {
		return nil, err
	}
	options := []lean.Option{
		lean.WithExporter(exporter),
		lean.WithBatch(lean.Batch{MaxQueueSize: queue, MaxQueueBytes: 1 << 30, ScheduleDelay: never}),
	}
	if o.Sampler != nil {
		options = append(options, lean.WithSampler(o.Sampler))
	}
	if o.Limits != nil {
		options = append(options, lean.WithSpanLimits(*o.Limits))
	}
	if o.Resource != nil {
		options = append(options, lean.WithResource(o.Resource))
	}
	if o.IDs != nil {
		options = append(options, lean.WithIDGenerator(o.IDs))
	}
	return accountant{lean.NewTracerProvider(options...)}, nil
}

// accountant holds lean to its own accounts: after shutdown, every recorded span that ended is exported,
// or counted with the reason why not, and nothing waits.
type accountant struct{ *lean.TracerProvider }

func (a accountant) Shutdown(ctx context.Context) error {
	err := a.TracerProvider.Shutdown(ctx)
	s := a.Stats()
	d := s.Dropped
	if sum := s.Exported + s.Rejected + s.Failed + s.Unsampled + d.QueueFull + d.QueueBytes + d.Shutdown + d.NoExporter; sum != s.Ended {
		err = errors.Join(err, fmt.Errorf("%d spans ended, %d are accounted for: %+v", s.Ended, sum, s))
	}
	if s.QueuedSpans != 0 || s.QueuedBytes != 0 || s.Rejected+s.Failed+d.QueueFull+d.QueueBytes+d.NoExporter != 0 {
		err = errors.Join(err, fmt.Errorf("spans were lost: %+v", s))
	}
	return err
}
