package limit

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/guard"
)

// Receivers wraps a factory, so that its receivers keep the limits of the extension that has them, or else the default.
func Receivers(f receiver.Factory) receiver.Factory {
	return receiver.NewFactory(f.Type(), f.CreateDefaultConfig,
		receiver.WithTraces(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
			return bounded(set, func(l *limiter) (component.Component, error) { return f.CreateTraces(ctx, set, cfg, traces{next, l}) })
		}, f.TracesStability()),
		receiver.WithMetrics(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
			return bounded(set, func(l *limiter) (component.Component, error) { return f.CreateMetrics(ctx, set, cfg, metrics{next, l}) })
		}, f.MetricsStability()),
		receiver.WithLogs(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
			return bounded(set, func(l *limiter) (component.Component, error) { return f.CreateLogs(ctx, set, cfg, logs{next, l}) })
		}, f.LogsStability()))
}

// limiter bounds what one receiver passes on.
type limiter struct {
	limits        Limits
	log           *zap.Logger
	cut, rejected metric.Int64Counter
	cuts          [whats]metric.MeasurementOption
	rejections    [reasons]metric.MeasurementOption
}

func newLimiter(set receiver.Settings) (*limiter, error) {
	l := &limiter{limits: Default(), log: guard.Bounded(set.Logger)}
	meter := set.MeterProvider.Meter("github.com/tare-trace/tare/collector/internal/limit")
	var err error
	if l.cut, err = meter.Int64Counter("tare_receiver_cut",
		metric.WithDescription("Names, values and lists that were longer than the limits, and attributes that were dropped, by receiver and kind.")); err != nil {
		return nil, fmt.Errorf("make the counter of what is cut: %w", err)
	}
	if l.rejected, err = meter.Int64Counter("tare_receiver_rejected_spans", metric.WithUnit("{span}"),
		metric.WithDescription("Spans without a trace id or a span id, by receiver and reason.")); err != nil {
		return nil, fmt.Errorf("make the counter of rejected spans: %w", err)
	}
	of := attribute.String("receiver", set.ID.String())
	for i, w := range what {
		l.cuts[i] = metric.WithAttributes(of, attribute.String("what", w))
	}
	for i, r := range reasonNames {
		l.rejections[i] = metric.WithAttributes(of, attribute.String("reason", r))
	}
	return l, nil
}

// bounded creates a receiver that finds its limits when it starts.
func bounded(set receiver.Settings, create func(*limiter) (component.Component, error)) (component.Component, error) {
	l, err := newLimiter(set)
	if err != nil {
		return nil, err
	}
	r, err := create(l)
	if err != nil || r == nil {
		return nil, err
	}
	return &limited{r, l}, nil
}

type limited struct {
	component.Component
	limiter *limiter
}

func (r *limited) Start(ctx context.Context, host component.Host) error {
	for _, e := range host.GetExtensions() {
		if from, ok := e.(From); ok {
			r.limiter.limits = from.Limits()
		}
	}
	return r.Component.Start(ctx, host)
}

// cutWith cuts with f, and counts and logs what was cut.
func (l *limiter) cutWith(ctx context.Context, f func(c *cutter)) {
	c := cutter{Limits: &l.limits}
	f(&c)
	if c.counts == [whats]int{} {
		return
	}
	fields := []zap.Field{from(ctx)}
	for i, n := range c.counts {
		if n > 0 {
			l.cut.Add(context.WithoutCancel(ctx), int64(n), l.cuts[i])
			fields = append(fields, zap.Int(what[i], n))
		}
	}
	l.log.Warn("received names or values that are too long, or too many of them, and cut them to the limits: see tare.cut on them, and the extension tare_limits", fields...)
}

func from(ctx context.Context) zap.Field {
	if addr := client.FromContext(ctx).Addr; addr != nil {
		return zap.Stringer("from", addr)
	}
	return zap.Skip()
}

type traces struct {
	consumer.Traces
	*limiter
}

func (t traces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if counts, n := reject(decoded(ctx), td); n > 0 {
		for i, n := range counts {
			if n > 0 {
				t.rejected.Add(context.WithoutCancel(ctx), int64(n), t.rejections[i])
			}
		}
		t.log.Warn("rejected spans without ids, which nobody could find", from(ctx), zap.Int("spans", n))
		if td.ResourceSpans().Len() == 0 {
			return nil
		}
	}
	t.cutWith(ctx, func(c *cutter) { c.traces(td) })
	return t.Traces.ConsumeTraces(ctx, td)
}

type metrics struct {
	consumer.Metrics
	*limiter
}

func (m metrics) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	decoded(ctx)
	m.cutWith(ctx, func(c *cutter) { c.metrics(md) })
	return m.Metrics.ConsumeMetrics(ctx, md)
}

type logs struct {
	consumer.Logs
	*limiter
}

func (l logs) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	decoded(ctx)
	l.cutWith(ctx, func(c *cutter) { c.logs(ld) })
	return l.Logs.ConsumeLogs(ctx, ld)
}
