package adaptive

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// ScopeName is the instrumentation scope of the metrics.
const ScopeName = "github.com/tare-trace/tare/otel/adaptive"

// registerMetrics registers observable instruments only: values are read when a
// reader collects, and decisions cost the same with and without them.
func (s *Sampler) registerMetrics(p metric.MeterProvider) error {
	m := p.Meter(ScopeName)
	var err error
	gauge := func(name, unit, description string) metric.Float64ObservableGauge {
		g, e := m.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		if err == nil {
			err = e
		}
		return g
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, e := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		if err == nil {
			err = e
		}
		return c
	}
	rate := gauge("adaptive_sampler.rate", "1", "Share of traces that is sampled.")
	boosts := gauge("adaptive_sampler.boost", "1", "Multiplier that errors and latency put on the base rate.")
	factor := gauge("adaptive_sampler.budget.factor", "1", "What the budget multiplies the rates with.")
	demand := gauge("adaptive_sampler.budget.demand", "{trace}/s", "Traces that the rates would sample without a budget.")
	pressure := gauge("adaptive_sampler.pressure", "1", "How full the way to the backend is.")
	incident := gauge("adaptive_sampler.incident.rate", "1", "Rate that an incident asks for, 0 for none.")
	decisions := counter("adaptive_sampler.decisions", "{trace}", "Decisions about traces that began here.")
	firing := gauge("adaptive_sampler.alerts.active", "{alert}", "Alerts that raise rates.")
	alerts := counter("adaptive_sampler.alerts.received", "{alert}", "Alerts that Alertmanager sent, by what they did.")
	webhooks := counter("adaptive_sampler.alerts.requests", "{request}", "Requests to the receiver of alerts.")
	requests := counter("adaptive_sampler.observations", "{request}", "Requests observed, up to the end of the last interval.")
	if err != nil {
		return err
	}
	by := func(key, value string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
	}
	s.registration, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := s.State()
		c := &st.Config
		o.ObserveFloat64(rate, st.Rate)
		o.ObserveFloat64(boosts, c.multiplier(st.Boosts))
		for _, r := range st.Routes {
			route := by("http.route", r.Route)
			o.ObserveFloat64(rate, r.Rate, route)
			o.ObserveFloat64(boosts, c.multiplier(r.Boosts), route)
		}
		o.ObserveFloat64(factor, st.Budget.Factor)
		o.ObserveFloat64(demand, st.Budget.Demand)
		o.ObserveFloat64(pressure, st.Pressure)
		o.ObserveFloat64(incident, st.Incident.Rate)
		d := st.Decisions
		for _, v := range []struct {
			outcome string
			n       uint64
		}{{"sampled", d.Sampled}, {"unsampled", d.Unsampled}, {"never", d.Never}, {"capped", d.Capped}} {
			o.ObserveInt64(decisions, int64(v.n), by("outcome", v.outcome))
		}
		a := st.Alerts
		o.ObserveFloat64(firing, float64(a.Active))
		for _, v := range []struct {
			outcome string
			n       uint64
		}{{"raised", a.Raised}, {"repeated", a.Repeated}, {"resolved", a.Resolved}, {"ignored", a.Ignored}, {"over", a.Over}, {"full", a.Full}} {
			o.ObserveInt64(alerts, int64(v.n), by("outcome", v.outcome))
		}
		o.ObserveInt64(webhooks, int64(a.Requests), by("outcome", "accepted"))
		o.ObserveInt64(webhooks, int64(a.Refused), by("outcome", "refused"))
		o.ObserveInt64(requests, int64(st.Observations.Total-st.Observations.Failed), by("outcome", "ok"))
		o.ObserveInt64(requests, int64(st.Observations.Failed), by("outcome", "failed"))
		return nil
	}, rate, boosts, factor, demand, pressure, incident, decisions, requests, firing, alerts, webhooks)
	return err
}

func (s *Sampler) unregisterMetrics() error {
	if s.registration == nil {
		return nil
	}
	return s.registration.Unregister()
}

func (c *Config) multiplier(b Boosts) float64 {
	m := 1.0
	if b.Error {
		m *= c.ErrorBoost
	}
	if b.Latency {
		m *= c.LatencyBoost
	}
	return m
}
