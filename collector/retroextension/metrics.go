package retroextension

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments publishes the counts among the collector's own metrics:
//
//	tare_retro_keeps            received, by outcome: passed, repeated, limited
//	tare_retro_keeps_limited    by service and reason
//	tare_retro_keeps_missed     forgotten before an agent, that was slow or away, asked for them
//	tare_retro_agents           that asked in the last minute
//	tare_retro_refused_requests by status, which it returns
func instruments(set component.TelemetrySettings, c *coordinator) (metric.Int64Counter, metric.Registration, error) {
	meter := set.MeterProvider.Meter("github.com/tare-trace/tare/collector/retroextension")
	refused, err0 := meter.Int64Counter("tare_retro_refused_requests", metric.WithUnit("{request}"), metric.WithDescription("Requests to the coordinator that were refused, by HTTP status."))
	keeps, err1 := meter.Int64ObservableCounter("tare_retro_keeps", metric.WithUnit("{keep}"), metric.WithDescription("Keeps received, by outcome."))
	limited, err2 := meter.Int64ObservableCounter("tare_retro_keeps_limited", metric.WithUnit("{keep}"), metric.WithDescription("Keeps dropped, because there are more than traces_per_second."))
	missed, err3 := meter.Int64ObservableCounter("tare_retro_keeps_missed", metric.WithUnit("{keep}"), metric.WithDescription("Keeps that were forgotten before an agent asked for them, counted for each agent."))
	agents, err4 := meter.Int64ObservableGauge("tare_retro_agents", metric.WithUnit("{agent}"), metric.WithDescription("Agents that asked in the last minute."))
	if err := errors.Join(err0, err1, err2, err3, err4); err != nil {
		return nil, nil, err
	}
	outcome := func(name string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String("outcome", name))
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		o.ObserveInt64(keeps, int64(c.counts.passed), outcome("passed"))
		o.ObserveInt64(keeps, int64(c.counts.repeated), outcome("repeated"))
		o.ObserveInt64(keeps, int64(c.counts.limited), outcome("limited"))
		o.ObserveInt64(missed, int64(c.counts.missed))
		o.ObserveInt64(agents, int64(c.connected()))
		for of, s := range c.limiter.classes {
			if s.limited > 0 {
				o.ObserveInt64(limited, int64(s.limited), metric.WithAttributes(attribute.String("service", of.service), attribute.String("reason", string(of.reason))))
			}
		}
		return nil
	}, keeps, limited, missed, agents)
	return refused, r, err
}
