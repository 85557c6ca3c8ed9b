package keep

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics reports [Stats] through the meter, until the registration is undone:
//
//	keep.traces.open       local traces whose root has not ended
//	keep.buffer.spans      spans that wait for the decision
//	keep.buffer.size       their estimated bytes
//	keep.traces.kept       by reason
//	keep.traces.partial    kept, but without all spans because of a bound
//	keep.traces.dropped    by cause
//	keep.spans.exported    by policy: head or keep
//	keep.spans.dropped     by cause
func (p *Processor) Metrics(meter metric.Meter) (metric.Registration, error) {
	var errs []error
	gauge := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		i, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		i, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	open := gauge("keep.traces.open", "{trace}", "Local traces whose root has not ended.")
	spans := gauge("keep.buffer.spans", "{span}", "Spans that wait for the decision.")
	bytes := gauge("keep.buffer.size", "By", "Estimated size of the spans that wait.")
	kept := counter("keep.traces.kept", "{trace}", "Local traces that were exported, by reason.")
	partial := counter("keep.traces.partial", "{trace}", "Exported local traces that lack spans because of a bound.")
	dropped := counter("keep.traces.dropped", "{trace}", "Local traces that were dropped, by cause.")
	exported := counter("keep.spans.exported", "{span}", "Spans that were handed on, by who took them.")
	spansDropped := counter("keep.spans.dropped", "{span}", "Spans that were dropped, by cause.")
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("keep: metrics: %w", err)
	}
	// Built once, as they are needed at each collection.
	var reasons [numReasons]metric.ObserveOption
	for i := range reasons {
		reasons[i] = label("reason", Reason(i).String())
	}
	var causes [numCauses]metric.ObserveOption
	for i := range causes {
		causes[i] = label("cause", Cause(i).String())
	}
	byHead, byKeep := label("policy", "head"), label("policy", "keep")
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := p.Stats()
		o.ObserveInt64(open, int64(s.OpenTraces))
		o.ObserveInt64(spans, int64(s.BufferedSpans))
		o.ObserveInt64(bytes, int64(s.BufferedBytes))
		o.ObserveInt64(partial, int64(s.TracesPartial))
		o.ObserveInt64(exported, int64(s.SpansPassed), byHead)
		o.ObserveInt64(exported, int64(s.SpansKept), byKeep)
		for i, n := range s.TracesKept {
			if Reason(i) != NotKept {
				o.ObserveInt64(kept, int64(n), reasons[i])
			}
		}
		for i := range causes {
			o.ObserveInt64(dropped, int64(s.TracesDropped[i]), causes[i])
			o.ObserveInt64(spansDropped, int64(s.SpansDropped[i]), causes[i])
		}
		return nil
	}, open, spans, bytes, kept, partial, dropped, exported, spansDropped)
}

func label(key, value string) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}
