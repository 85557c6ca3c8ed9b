package storeextension

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tare-trace/tare/store"
)

// metrics publishes what the store says of itself among the collector's own metrics.
type metrics struct{ registration metric.Registration }

// state is all that the store says of itself, at a time.
type state struct {
	store.Stats
	logs    store.LogStats
	points  store.MetricStats
	damaged store.Damage
}

// instrument is a metric: a gauge, or a counter since the store was opened. It has one value, or one for each
// reason.
type instrument struct {
	name, unit, about string
	counts            bool
	value             func(*state) uint64
	byReason          func(*state) map[string]uint64
	unknown           func(*state) bool // nil: it always has a value
}

var instruments = []instrument{
	{name: "tare_store_spans", unit: "{span}", about: "Spans stored.", value: func(s *state) uint64 { return s.Spans }},
	{name: "tare_store_traces", unit: "{trace}", about: "Traces stored.", value: func(s *state) uint64 { return s.Traces }},
	{name: "tare_store_size", unit: "By", about: "Size of the store on disk.", value: func(s *state) uint64 { return s.Bytes }},
	{
		name: "tare_store_oldest", unit: "s", about: "Start of the oldest stored span, as Unix time.",
		value: func(s *state) uint64 { return uint64(s.Oldest.Unix()) }, unknown: func(s *state) bool { return s.Oldest.IsZero() },
	},
	{name: "tare_store_written_spans", unit: "{span}", about: "Spans written since the store was opened.", counts: true, value: func(s *state) uint64 { return s.Written }},
	{name: "tare_store_expired_spans", unit: "{span}", about: "Spans that retention removed since then.", counts: true, value: func(s *state) uint64 { return s.Expired }},
	{
		name: "tare_store_overdue_spans", unit: "{span}", about: "Spans that no query shows, since the retention of their service is over, and that are still on the disk: at most so many.",
		value: func(s *state) uint64 { return s.Overdue },
	},
	{
		name: "tare_store_refused_spans", unit: "{span}", about: "Spans refused since then, because the disk is full or the store closed.", counts: true,
		value: func(s *state) uint64 { return s.Refused },
	},

	{
		name: "tare_store_lost_spans", unit: "{span}", about: "Spans that were acknowledged, and are in no file of the store.",
		value: func(s *state) uint64 { return s.damaged.LostSpans },
	},
	{
		name: "tare_store_unreadable_spans", unit: "{span}", about: "Spans in chunks of which a part was found to be damaged.",
		value: func(s *state) uint64 { return s.damaged.UnreadableSpans },
	},
	{name: "tare_store_quarantine_files", unit: "{file}", about: "Files in the store's quarantine.", value: func(s *state) uint64 { return uint64(len(s.damaged.Quarantine)) }},

	{name: "tare_store_logs", unit: "{record}", about: "Log records stored beside traces.", value: func(s *state) uint64 { return s.logs.Records }},
	{name: "tare_store_log_size", unit: "By", about: "Size of these records.", value: func(s *state) uint64 { return s.logs.Bytes }},
	{name: "tare_store_written_logs", unit: "{record}", about: "Log records written since the store was opened.", counts: true, value: func(s *state) uint64 { return s.logs.Written }},
	{name: "tare_store_expired_logs", unit: "{record}", about: "Log records that retention removed by age since then.", counts: true, value: func(s *state) uint64 { return s.logs.Expired }},
	{
		name: "tare_store_refused_logs", unit: "{record}", about: "Log records refused since then, because the disk is full or the store closed.", counts: true,
		value: func(s *state) uint64 { return s.logs.Refused },
	},
	{
		name: "tare_store_dropped_logs", unit: "{record}", about: "Log records dropped since then, by reason.", counts: true,
		byReason: func(s *state) map[string]uint64 {
			l := &s.logs
			return map[string]uint64{"no_trace": l.NoTrace, "too_large": l.TooLarge, "trace_full": l.TraceFull, "evicted": l.Evicted}
		},
	},

	{name: "tare_store_metric_points", unit: "{point}", about: "Points stored of what agents measured of all requests.", value: func(s *state) uint64 { return s.points.Points }},
	{name: "tare_store_metric_size", unit: "By", about: "Size of these points.", value: func(s *state) uint64 { return s.points.Bytes }},
	{
		name: "tare_store_written_metric_points", unit: "{point}", about: "Such points written since the store was opened.", counts: true,
		value: func(s *state) uint64 { return s.points.Written },
	},
	{
		name: "tare_store_expired_metric_points", unit: "{point}", about: "Such points that retention removed by age since then.", counts: true,
		value: func(s *state) uint64 { return s.points.Expired },
	},
	{
		name: "tare_store_refused_metric_points", unit: "{point}", about: "Such points refused since then, because the disk is full or the store closed.", counts: true,
		value: func(s *state) uint64 { return s.points.Refused },
	},
	{
		name: "tare_store_dropped_metric_points", unit: "{point}", about: "Points of metrics dropped since then, by reason.", counts: true,
		byReason: func(s *state) map[string]uint64 {
			m := &s.points
			return map[string]uint64{"other": m.Other, "cumulative": m.Cumulative, "invalid": m.Invalid, "too_many": m.TooMany, "evicted": m.Evicted}
		},
	},
}

func observe(provider metric.MeterProvider, s *store.Store) (*metrics, error) {
	meter := provider.Meter("github.com/tare-trace/tare/collector/storeextension")
	observed := make([]metric.Int64Observable, len(instruments))
	all := make([]metric.Observable, len(instruments))
	var errs []error
	for i, of := range instruments {
		var err error
		if of.counts {
			observed[i], err = meter.Int64ObservableCounter(of.name, metric.WithUnit(of.unit), metric.WithDescription(of.about))
		} else {
			observed[i], err = meter.Int64ObservableGauge(of.name, metric.WithUnit(of.unit), metric.WithDescription(of.about))
		}
		all[i] = observed[i]
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := state{s.Stats(), s.LogStats(), s.MetricStats(), s.Damage()}
		for i, of := range instruments {
			switch {
			case of.unknown != nil && of.unknown(&now):
			case of.byReason != nil:
				for reason, n := range of.byReason(&now) {
					o.ObserveInt64(observed[i], int64(n), metric.WithAttributes(attribute.String("reason", reason)))
				}
			default:
				o.ObserveInt64(observed[i], int64(of.value(&now)))
			}
		}
		return nil
	}, all...)
	if err != nil {
		return nil, err
	}
	return &metrics{registration: r}, nil
}

func (m *metrics) stop() error { return m.registration.Unregister() }
