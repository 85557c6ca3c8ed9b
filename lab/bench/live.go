package bench

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tare-trace/tare/internal/browser"
	"github.com/tare-trace/tare/lab/record"
)

// live shows an experiment that is under way at /metrics.
type live struct {
	registry *prometheus.Registry
	planned  prometheus.Gauge
	done     prometheus.Gauge
	failed   prometheus.Counter
	current  *prometheus.GaugeVec
	last     *prometheus.GaugeVec
}

func newLive() *live {
	l := &live{
		registry: prometheus.NewRegistry(),
		planned:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tare_bench_runs_planned", Help: "Runs of the experiment."}),
		done:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "tare_bench_runs_done", Help: "Runs that are written down."}),
		failed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "tare_bench_runs_failed_total", Help: "Runs that did not come to their end."}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tare_bench_running", Help: "1 for the run that is under way."},
			[]string{"cell", "variant"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tare_bench_last_value", Help: "What the latest run of a variant found, by metric; the metric's name ends with its unit."},
			[]string{"cell", "variant", "metric"}),
	}
	l.registry.MustRegister(l.planned, l.done, l.failed, l.current, l.last,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return l
}

func (l *live) total(planned, done int) {
	l.planned.Set(float64(planned))
	l.done.Set(float64(done))
}

func (l *live) running(p planned) {
	l.current.Reset()
	l.current.WithLabelValues(p.cell.Name, p.variant.Name).Set(1)
}

func (l *live) ran(r *record.Run, done int) {
	l.done.Set(float64(done))
	if r.Failed != "" {
		l.failed.Inc()
	}
	for metric, v := range r.Values {
		l.last.WithLabelValues(r.Cell, r.Variant, metric).Set(v)
	}
}

// serve answers /metrics until stop is called.
func (l *live) serve(address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for /metrics (choose another --listen): %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(l.registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: browser.Local(listener.Addr(), mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			_ = listener.Close() // the experiment is worth more than its metrics
		}
	})
	return func() {
		_ = server.Close()
		served.Wait()
	}, nil
}
