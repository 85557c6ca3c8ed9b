package storeextension

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tare-trace/tare/store"
)

// metrics publishes the store's [store.Stats] among the collector's own metrics.
type metrics struct{ registration metric.Registration }

func observe(provider metric.MeterProvider, s *store.Store) (*metrics, error) {
	meter := provider.Meter("github.com/tare-trace/tare/collector/storeextension")
	var err error
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, e := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		if e != nil {
			err = e
		}
		return g
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, e := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		if e != nil {
			err = e
		}
		return c
	}
	var (
		spans   = gauge("tare_store_spans", "{span}", "Spans stored.")
		traces  = gauge("tare_store_traces", "{trace}", "Traces stored.")
		bytes   = gauge("tare_store_size", "By", "Size of the store on disk.")
		oldest  = gauge("tare_store_oldest", "s", "Start of the oldest stored span, as Unix time.")
		written = counter("tare_store_written_spans", "{span}", "Spans written since the store was opened.")
		expired = counter("tare_store_expired_spans", "{span}", "Spans that retention removed since then.")
		overdue = gauge("tare_store_overdue_spans", "{span}", "Spans that no query shows, since the retention of their service is over, and that are still on the disk: at most so many.")
		refused = counter("tare_store_refused_spans", "{span}", "Spans refused since then, because the disk is full or the store closed.")
	)
	var (
		lost       = gauge("tare_store_lost_spans", "{span}", "Spans that were acknowledged, and are in no file of the store.")
		unreadable = gauge("tare_store_unreadable_spans", "{span}", "Spans in chunks of which a part was found to be damaged.")
		aside      = gauge("tare_store_quarantine_files", "{file}", "Files in the store's quarantine.")
	)
	var (
		logs        = gauge("tare_store_logs", "{record}", "Log records stored beside traces.")
		logBytes    = gauge("tare_store_log_size", "By", "Size of these records.")
		logsWritten = counter("tare_store_written_logs", "{record}", "Log records written since the store was opened.")
		logsExpired = counter("tare_store_expired_logs", "{record}", "Log records that retention removed by age since then.")
		logsRefused = counter("tare_store_refused_logs", "{record}", "Log records refused since then, because the disk is full or the store closed.")
		logsDropped = counter("tare_store_dropped_logs", "{record}", "Log records dropped since then, by reason.")
	)
	var (
		points        = gauge("tare_store_metric_points", "{point}", "Points stored of what agents measured of all requests.")
		pointBytes    = gauge("tare_store_metric_size", "By", "Size of these points.")
		pointsWritten = counter("tare_store_written_metric_points", "{point}", "Such points written since the store was opened.")
		pointsExpired = counter("tare_store_expired_metric_points", "{point}", "Such points that retention removed by age since then.")
		pointsRefused = counter("tare_store_refused_metric_points", "{point}", "Such points refused since then, because the disk is full or the store closed.")
		pointsDropped = counter("tare_store_dropped_metric_points", "{point}", "Points of metrics dropped since then, by reason.")
	)
	if err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := s.Stats()
		o.ObserveInt64(spans, int64(stats.Spans))
		o.ObserveInt64(traces, int64(stats.Traces))
		o.ObserveInt64(bytes, int64(stats.Bytes))
		if !stats.Oldest.IsZero() {
			o.ObserveInt64(oldest, stats.Oldest.Unix())
		}
		o.ObserveInt64(written, int64(stats.Written))
		o.ObserveInt64(expired, int64(stats.Expired))
		o.ObserveInt64(refused, int64(stats.Refused))
		o.ObserveInt64(overdue, int64(stats.Overdue))
		l := s.LogStats()
		o.ObserveInt64(logs, int64(l.Records))
		o.ObserveInt64(logBytes, int64(l.Bytes))
		o.ObserveInt64(logsWritten, int64(l.Written))
		o.ObserveInt64(logsExpired, int64(l.Expired))
		o.ObserveInt64(logsRefused, int64(l.Refused))
		for reason, n := range map[string]uint64{"no_trace": l.NoTrace, "too_large": l.TooLarge, "trace_full": l.TraceFull, "evicted": l.Evicted} {
			o.ObserveInt64(logsDropped, int64(n), metric.WithAttributes(attribute.String("reason", reason)))
		}
		m := s.MetricStats()
		o.ObserveInt64(points, int64(m.Points))
		o.ObserveInt64(pointBytes, int64(m.Bytes))
		o.ObserveInt64(pointsWritten, int64(m.Written))
		o.ObserveInt64(pointsExpired, int64(m.Expired))
		o.ObserveInt64(pointsRefused, int64(m.Refused))
		for reason, n := range map[string]uint64{"other": m.Other, "cumulative": m.Cumulative, "invalid": m.Invalid, "too_many": m.TooMany, "evicted": m.Evicted} {
			o.ObserveInt64(pointsDropped, int64(n), metric.WithAttributes(attribute.String("reason", reason)))
		}
		d := s.Damage()
		o.ObserveInt64(lost, int64(d.LostSpans))
		o.ObserveInt64(unreadable, int64(d.UnreadableSpans))
		o.ObserveInt64(aside, int64(len(d.Quarantine)))
		return nil
	}, spans, traces, bytes, oldest, written, expired, refused, overdue, lost, unreadable, aside, logs, logBytes, logsWritten, logsExpired, logsRefused, logsDropped, points, pointBytes, pointsWritten, pointsExpired, pointsRefused, pointsDropped)
	if err != nil {
		return nil, err
	}
	return &metrics{registration: r}, nil
}

func (m *metrics) stop() error { return m.registration.Unregister() }
