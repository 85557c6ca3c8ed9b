package tracerprocessor

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tare-trace/tare/collector/internal/assemble"
	"github.com/tare-trace/tare/span/semconv"
)

// observe publishes the assembler's counts, read at each collection.
//
//	tare_tracer_received_spans_total                 spans received
//	tare_tracer_built_spans_total                    spans made from message events (events: only)
//	tare_tracer_given_spans_total                    spans emitted
//	tare_tracer_merged_events_total                  message events that became part of a span
//	tare_tracer_dropped_spans_total{reason}          invalid_id, duplicate, late, message, refused
//	tare_tracer_late_spans_total                     spans that arrived after their trace was emitted
//	tare_tracer_id_conflicts_total                   spans with the id of another span, kept
//	tare_tracer_traces_total{state,reason}           traces emitted; reasons separated by commas
//	tare_tracer_joins_total{outcome}                 joined, ambiguous, mismatched, gone, unregistered
//	tare_tracer_routes_total{outcome}                HTTP spans named by a route: given, learned, unknown
//	tare_tracer_moved_spans_total                    spans whose times were corrected, or marked
//	tare_tracer_unproven_clocks_total                traces whose spans contradict each other about a clock
//	tare_tracer_clock_offset_seconds{host}           offset last added to the times of a host
//	tare_tracer_reread_spans_total                   spans of the journal that a process left which had ended
//	tare_tracer_journal_bytes                        size of the journal
//	tare_tracer_journal_refused_spans_total          spans that their sender is to send again: the journal or the disk had no room
//	tare_tracer_pending_spans, _bytes, _traces       waiting now
func (p *tracer) observe(provider metric.MeterProvider) error {
	meter := provider.Meter("github.com/tare-trace/tare/collector/tracerprocessor")
	var all []metric.Observable
	var failed error
	counter := func(name, unit, text string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter("tare_tracer_"+name, metric.WithUnit(unit), metric.WithDescription(text))
		if err != nil {
			failed = err
		}
		all = append(all, c)
		return c
	}
	gauge := func(name, unit, text string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge("tare_tracer_"+name, metric.WithUnit(unit), metric.WithDescription(text))
		if err != nil {
			failed = err
		}
		all = append(all, g)
		return g
	}
	received := counter("received_spans_total", "{span}", "Spans received.")
	built := counter("built_spans_total", "{span}", "Spans made from the message events of a request.")
	given := counter("given_spans_total", "{span}", "Spans emitted.")
	merged := counter("merged_events_total", "{event}", "Message events that became part of a span.")
	dropped := counter("dropped_spans_total", "{span}", "Spans that were not emitted.")
	late := counter("late_spans_total", "{span}", "Spans that arrived after their trace was emitted.")
	conflicts := counter("id_conflicts_total", "{span}", "Spans with the id of another span, kept.")
	traces := counter("traces_total", "{trace}", "Traces emitted.")
	doubles := counter("doubles_total", "{span}", "Spans of which an SDK has another one of the same call, one of which is to be kept.")
	joins := counter("joins_total", "{attempt}", "Attempts to join traces by connection and stream offset.")
	routes := counter("routes_total", "{span}", "HTTP spans whose sender named them by no more than method and path.")
	reread := counter("reread_spans_total", "{span}", "Spans read from the journal of a process that had ended.")
	kept := gauge("journal_bytes", "By", "Size of the journal.")
	unkept := counter("journal_refused_spans_total", "{span}", "Spans that their sender is to send again, because the journal had no room.")
	moved := counter("moved_spans_total", "{span}", "Spans whose times were corrected, or marked.")
	unproven := counter("unproven_clocks_total", "{trace}", "Traces whose spans contradict each other about a clock.")
	spans := gauge("pending_spans", "{span}", "Spans that wait for the rest of their trace.")
	bytes := gauge("pending_bytes", "By", "Estimated memory of the waiting spans.")
	pending := gauge("pending_traces", "{trace}", "Traces that wait.")
	offset, err := meter.Float64ObservableGauge("tare_tracer_clock_offset_seconds", metric.WithUnit("s"),
		metric.WithDescription("Offset last added to the times of a host."))
	if err != nil {
		failed = err
	}
	all = append(all, offset)
	if failed != nil {
		return failed
	}

	count := func(o metric.Observer, c metric.Int64Observable, n uint64, attrs ...attribute.KeyValue) {
		o.ObserveInt64(c, int64(n), metric.WithAttributes(attrs...))
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := p.assembler.Stats()
		count(o, received, s.Received)
		count(o, built, s.Built)
		count(o, given, s.Emitted)
		count(o, merged, s.Merged)
		count(o, late, s.Late)
		count(o, conflicts, s.Conflicts)
		count(o, moved, s.Moved)
		count(o, reread, p.reread.Load())
		o.ObserveInt64(kept, p.journalBytes.Load())
		count(o, unkept, p.unkept.Load())
		count(o, unproven, s.Unproven)
		for i, reason := range assemble.DropReasons {
			count(o, dropped, s.Dropped[i], attribute.String("reason", reason))
		}
		count(o, dropped, p.refused.Load(), attribute.String("reason", "refused"))
		for i, outcome := range assemble.JoinOutcomes {
			count(o, joins, s.Joins[i], attribute.String("outcome", outcome))
		}
		for i, outcome := range assemble.DoubleOutcomes {
			count(o, doubles, s.Doubles[i], attribute.String("outcome", outcome))
		}
		for i, outcome := range assemble.RouteOutcomes {
			count(o, routes, s.Routes[i], attribute.String("outcome", outcome))
		}
		count(o, traces, s.Complete, attribute.String("state", semconv.StateComplete), attribute.String("reason", ""))
		for kinds, n := range s.Unlinked {
			count(o, traces, n, attribute.String("state", semconv.StateUnlinked), attribute.String("reason", kinds))
		}
		for reasons, n := range s.Incomplete {
			count(o, traces, n, attribute.String("state", semconv.StateIncomplete), attribute.String("reason", reasons.String()))
		}
		o.ObserveInt64(spans, int64(s.Spans))
		o.ObserveInt64(bytes, int64(s.Bytes))
		o.ObserveInt64(pending, int64(s.Traces))
		for _, h := range p.assembler.HostOffsets() {
			o.ObserveFloat64(offset, float64(h.Offset)/1e9, metric.WithAttributes(attribute.String("host", h.Host)))
		}
		return nil
	}, all...)
	if err != nil {
		return err
	}
	p.unobserve = r.Unregister
	return nil
}
