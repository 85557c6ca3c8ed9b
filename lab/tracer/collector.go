package tracer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/scrape"
)

// collector is not beside the service: the service under test is a collector,
// and its environment says which. What it did with the spans is read from its
// own metrics, which have the names that every OpenTelemetry Collector uses.
type collector struct{}

// Facts: one collector may be the baseline of others. The spans are what it was
// sent, and no traces of the requests that brought them.
func (collector) Facts(*experiment.Tracer) Facts   { return Facts{Baseline: true} }
func (collector) Check(t *experiment.Tracer) error { return errors.Join(needsEnv(t), noSampler(t)) }

func (collector) Available(context.Context, *experiment.Tracer, *Host) error { return nil }

func (collector) Start(_ context.Context, t Target) (Session, error) {
	s := t.Chain.Services[0]
	if s.Metrics == 0 {
		return nil, fmt.Errorf("driver collector: the workload %s has no collector", t.Workload.Name)
	}
	metrics := "http://" + net.JoinHostPort(s.Host, strconv.Itoa(s.Metrics)) + "/metrics"
	return &collecting{newService(t), newBackend(metrics, func() []int { return s.PIDs })}, nil
}

type collecting struct {
	*service
	backend *Backend
}

// Backend is the service itself.
func (c *collecting) Backend() *Backend { return c.backend }

// settled bounds the time that a collector may take to export the spans that it
// has accepted: those of incomplete traces wait for the expiry of their trace,
// 10 s.
const settled = 30 * time.Second

// What a collector tells of itself.
const (
	metricAccepted = "otelcol_receiver_accepted_spans"
	metricRefused  = "otelcol_receiver_refused_spans"
	metricSent     = "otelcol_exporter_sent_spans"
	metricUnsent   = "otelcol_exporter_send_failed_spans"
	metricUnqueued = "otelcol_exporter_enqueue_failed_spans"
)

// lostBy is what a collector says that it lost, by reason.
func lostBy(families scrape.Families) map[string]uint64 {
	return map[string]uint64{
		"refused": uint64(families.Total(metricRefused)), "send_failed": uint64(families.Total(metricUnsent)),
		"enqueue_failed": uint64(families.Total(metricUnqueued)),
	}
}

// ReadBack waits until every exporter has handed on what was accepted. Spans
// that the collector counts as failed are dropped ones. Spans that are missing
// without being counted are an error: the run would have measured a collector
// that does less.
func (c *collecting) ReadBack(ctx context.Context) (Reading, error) {
	r := Reading{Asked: c.target.Variant.Environment(c.target.Sink), Config: map[string]any{}, Counts: true}
	if err := c.environment(r); err != nil {
		return r, err
	}
	deadline := time.Now().Add(settled)
	for {
		families, err := c.backend.ask(ctx)
		if err != nil {
			return r, fmt.Errorf("the collector's metrics: %w", err)
		}
		accepted := families.Total(metricAccepted)
		sent := families.ByLabel(metricSent, "exporter")
		r.Lost = lostBy(families)
		missing := 0.0
		for _, n := range sent {
			missing = max(missing, accepted-n)
		}
		if len(sent) > 0 && missing == 0 || time.Now().After(deadline) {
			r.Config["accepted_spans"] = accepted
			for exporter, n := range sent {
				r.Config["sent_spans."+exporter] = n
			}
			return r, c.judge(&r, accepted, missing, sent)
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *collecting) judge(r *Reading, accepted, missing float64, sent map[string]float64) error {
	for _, n := range r.Lost {
		r.Dropped += n
	}
	if accepted == 0 || len(sent) == 0 {
		return fmt.Errorf("the collector accepted %.0f spans and tells of %d exporters", accepted, len(sent))
	}
	if missing > float64(r.Dropped) {
		return fmt.Errorf("of %.0f spans that the collector accepted, %.0f were handed on by no exporter within %v, and it says of only %d that it dropped them: %v",
			accepted, missing, settled, r.Dropped, sent)
	}
	return nil
}
