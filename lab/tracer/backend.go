package tracer

import (
	"context"
	"fmt"

	"github.com/tare-trace/tare/lab/scrape"
)

// Backend is a collector that spans come to before the laboratory's sink.
type Backend struct {
	// PIDs are its processes.
	PIDs    func() []int
	metrics string // URL
}

func newBackend(metrics string, pids func() []int) *Backend {
	return &Backend{PIDs: pids, metrics: metrics}
}

// metricQueue is what waits in the queues of a collector's exporters, in the unit of
// their configuration: the laboratory's collectors count spans (sizer: items).
const metricQueue = "otelcol_exporter_queue_size" // exporter

// Held is what a collector has accepted and not yet passed on, in spans.
type Held struct {
	Queued  float64 // for its exporters
	Pending float64 // for the rest of their trace; 0 of a collector that does not wait for it
}

// ask reads the collector's metrics.
func (b *Backend) ask(ctx context.Context) (scrape.Families, error) {
	return scrape.Get(ctx, scrape.Once, b.metrics)
}

// Held reads what the collector holds now.
func (b *Backend) Held(ctx context.Context) (Held, error) {
	families, err := b.ask(ctx)
	if err != nil {
		return Held{}, fmt.Errorf("the collector's metrics: %w", err)
	}
	if families[metricQueue] == nil {
		return Held{}, fmt.Errorf("the collector has no %s: have its exporters a sending_queue?", metricQueue)
	}
	return Held{families.Total(metricQueue), families.Total(metricPending)}, nil
}
