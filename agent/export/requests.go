package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

const (
	// metricsTimeout bounds one export of metrics, and the last one when the agent ends.
	metricsTimeout = 10 * time.Second
	tracesPath     = "/v1/traces"
	metricsPath    = "/v1/metrics"
	metricsMethod  = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
)

var (
	descMetricPoints = prometheus.NewDesc("tare_export_metric_points_total",
		"Points of the metrics of all requests that the OTLP receiver took.", nil, nil)
	descMetricFailures = prometheus.NewDesc("tare_export_failed_metrics_total",
		"Exports of the metrics of all requests that failed; what they held is in the next one.", nil, nil)
	descMetricRejected = prometheus.NewDesc("tare_export_rejected_metric_points_total",
		"Points that the OTLP receiver took with a request and rejected.", nil, nil)
)

// Deltas are metrics that were measured since they were last sent, as an encoded
// ExportMetricsServiceRequest of so many points.
type Deltas interface {
	Read(now time.Time) (request []byte, points int, err error)
	Sent()
}

// Metrics exports metrics by OTLP at an interval, to where spans go: the receiver, its headers and
// certificates are those of spans, unless OTEL_EXPORTER_OTLP_METRICS_ENDPOINT names another address. What a
// receiver does not take is sent again with what was measured meanwhile; if it took it and its answer was
// lost, it has those requests twice.
type Metrics struct {
	client client
	every  time.Duration
	log    *slog.Logger

	points, rejected atomic.Uint64
	failed           atomic.Uint64 // exports
	failing          bool
}

// NewMetrics sets up the client, which connects when something is sent. Of cfg, Protocol, Endpoint and Log count.
func NewMetrics(cfg Config, every time.Duration) (*Metrics, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{every: every, log: cfg.Log}
	cfg.Protocol = cmp.Or(cfg.Protocol, protocolFromEnv())
	cfg.Endpoint = cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")), cfg.Endpoint)
	var err error
	if cfg.Protocol == GRPC {
		opts := []otlpgrpc.Option{otlpgrpc.WithRetry(otlphttp.RetryConfig{}), otlpgrpc.WithMethod(metricsMethod)}
		if cfg.Endpoint != "" {
			opts = append(opts, otlpgrpc.WithEndpointURL(cfg.Endpoint))
		}
		m.client, err = otlpgrpc.New(opts...)
		return m, err
	}
	if cfg.Endpoint == "" { // that of spans, as the environment says
		spans, err := newClient(cfg, false)
		if err != nil {
			return nil, err
		}
		base, ok := strings.CutSuffix(spans.Endpoint(), tracesPath)
		if err := spans.Shutdown(context.Background()); err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("spans go to %s, which does not end in %s: say where metrics go by OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or that they do not by OTEL_METRICS_EXPORTER=none", spans.Endpoint(), tracesPath)
		}
		cfg.Endpoint = base + metricsPath
	}
	m.client, err = otlphttp.New(otlphttp.WithRetry(otlphttp.RetryConfig{}), otlphttp.WithEndpointURL(cfg.Endpoint))
	return m, err
}

// Run exports until ctx ends, and then once more.
func (m *Metrics) Run(ctx context.Context, deltas Deltas) {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			m.export(ctx, deltas)
		case <-ctx.Done():
		}
	}
	end := context.WithoutCancel(ctx)
	m.export(end, deltas)
	if err := m.client.Shutdown(end); err != nil {
		m.log.Warn("the exporter of metrics did not end well", "error", err)
	}
}

func (m *Metrics) export(ctx context.Context, deltas Deltas) {
	ended := ctx
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, points, err := deltas.Read(time.Now())
	rejected := 0
	if err == nil && points > 0 {
		rejected, err = m.client.Export(ctx, request, points)
	}
	if err != nil {
		if errors.Is(ended.Err(), context.Canceled) {
			return // Run exports once more
		}
		m.failed.Add(1)
		if !m.failing {
			m.log.Warn("cannot export metrics of requests, which are tried again; more such failures will only be counted. OTEL_METRICS_EXPORTER=none stops the export, /metrics has them", "error", err)
		}
		m.failing = true
		return
	}
	deltas.Sent()
	m.points.Add(uint64(points - rejected)) //nolint:gosec // not negative
	m.rejected.Add(uint64(rejected))        //nolint:gosec // not negative
	if m.failing {
		m.log.Info("exporting metrics again")
	}
	m.failing = false
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descMetricPoints
	ch <- descMetricFailures
	ch <- descMetricRejected
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for desc, n := range map[*prometheus.Desc]*atomic.Uint64{descMetricPoints: &m.points, descMetricFailures: &m.failed, descMetricRejected: &m.rejected} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n.Load()))
	}
}
