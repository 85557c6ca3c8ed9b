package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/scrape"
	"github.com/tare-trace/tare/lab/tracer"
)

// aside is what service, agent and collector say of themselves. To say it costs them CPU time, so
// they are asked just before a window and just after it, and the time between the two
// answers is a little longer than the window.
type aside struct {
	at     time.Time // of the service's answer
	served scrape.Histogram
	held   tracer.Held

	reported   float64   // bytes that the agent has exported
	reportedAt time.Time // of its answer

	// queries that the server of names was asked since it began, at a time of their own.
	queries uint64
	asked   time.Time
}

// aside asks whoever there is.
func (r *run) aside(ctx context.Context) (a aside, err error) {
	if b := r.backend(); b != nil {
		if a.held, err = b.Held(ctx); err != nil {
			return a, err
		}
	}
	if s := r.reports(); s != nil {
		if a.reportedAt, err = timed(func() (err error) { a.reported, err = s.Reported(ctx); return err }); err != nil {
			return a, err
		}
	}
	if names := r.stage.names; names != nil {
		a.asked = time.Now()
		if a.queries, err = names.Queries(); err != nil {
			return a, err
		}
	}
	if r.job.Workload.Metrics == "" {
		return a, nil
	}
	a.at, err = timed(func() (err error) { a.served, err = r.served(ctx); return err })
	return a, err
}

// timed is the middle of the time that it takes to ask.
func timed(ask func() error) (time.Time, error) {
	begin := time.Now()
	err := ask()
	return begin.Add(time.Since(begin) / 2), err
}

// reporter is a tracer that counts the bytes which it exports.
type reporter interface {
	Reported(context.Context) (float64, error)
}

// reports is the tracer, if it counts what it exports; nil: it does not.
func (r *run) reports() reporter {
	if s, ok := r.session.(reporter); ok && r.job.Variant.Tracer.StopAt == "" {
		return s
	}
	return nil
}

// durations are histograms of the seconds that requests took: as OpenTelemetry names it
// for Prometheus, and as most services did before.
var durations = []string{"http_server_request_duration_seconds", "http_request_duration_seconds"}

// served reads how long the requests took that the service has answered since it began.
func (r *run) served(ctx context.Context) (scrape.Histogram, error) {
	url := "http://" + r.chain.Entry + r.job.Workload.Metrics
	families, err := scrape.Get(ctx, scrape.Once, url)
	if err != nil {
		return scrape.Histogram{}, fmt.Errorf("the service's metrics: %w", err)
	}
	for _, name := range durations {
		if families[name] != nil {
			h, err := families.Histogram(name)
			if err != nil {
				return h, fmt.Errorf("the service's metrics: %s: %w", url, err)
			}
			return h, nil
		}
	}
	return scrape.Histogram{}, fmt.Errorf("the service's metrics: %s has none of %s: leave metrics out of the workload, or count the requests there", url, strings.Join(durations, ", "))
}

// asideValues are the metrics of what was said before and after a window.
func (r *run) asideValues(before, after aside) error {
	v := r.rec.Values
	if r.backend() != nil {
		v[record.CollectorQueue] = (before.held.Queued + after.held.Queued) / 2
		v[record.CollectorPending] = (before.held.Pending + after.held.Pending) / 2
	}
	v[record.NetReported] = 0
	if r.reports() != nil {
		v[record.NetReported] = (after.reported - before.reported) / after.reportedAt.Sub(before.reportedAt).Seconds() / v[record.Throughput]
	}
	if r.stage.names != nil {
		v[record.DNSQueries] = float64(after.queries-before.queries) / after.asked.Sub(before.asked).Seconds()
	}
	if r.job.Workload.Metrics == "" {
		return nil
	}
	h, err := after.served.Since(before.served)
	if err != nil {
		return fmt.Errorf("the service's metrics: %w", err)
	}
	v[record.ServerThroughput] = float64(h.Count()) / after.at.Sub(before.at).Seconds()
	for key, q := range map[string]float64{record.ServerP50: 0.5, record.ServerP95: 0.95, record.ServerP99: 0.99} {
		if seconds, lo, hi, ok := h.Quantile(q); ok && seconds > 0 {
			v[key] = seconds * 1e3
			v[record.ServerBucket] = max(v[record.ServerBucket], (hi-lo)/seconds)
		}
	}
	return nil
}
