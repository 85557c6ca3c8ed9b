package keepprocessor

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics publishes the counts among the collector's own metrics:
//
//	tare_keep_traces_kept        by reason
//	tare_keep_traces_dropped     by reason: share, rule (its probability), incomplete
//	tare_keep_spans_dropped      of dropped traces, late spans included
//	tare_keep_late_spans         by decision: kept, dropped, reversed (kept, the others were dropped), unknown (kept)
//	tare_keep_rare_over_limit    traces on rare paths beyond rare.at_most
//	tare_keep_unlearned          roots whose operation is beyond slow.learn.operations
//	tare_keep_operations         operations that are learned
//	tare_keep_share_probability  current value
func (k *keeper) metrics(provider metric.MeterProvider, id component.ID) (metric.Registration, error) {
	meter := provider.Meter("github.com/tare-trace/tare/collector/keepprocessor")
	var errs []error
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	kept := counter("tare_keep_traces_kept", "{trace}", "Traces kept, by reason.")
	dropped := counter("tare_keep_traces_dropped", "{trace}", "Traces dropped, by the reason of the decision.")
	spans := counter("tare_keep_spans_dropped", "{span}", "Spans of dropped traces.")
	late := counter("tare_keep_late_spans", "{span}", "Late spans, by the decision about their trace.")
	over := counter("tare_keep_rare_over_limit", "{trace}", "Traces on rare paths beyond the limit of an interval.")
	unlearned := counter("tare_keep_unlearned", "{trace}", "Roots whose operation is not learned, because there are too many.")
	operations, err := meter.Int64ObservableGauge("tare_keep_operations", metric.WithUnit("{operation}"), metric.WithDescription("Root operations that are learned."))
	errs = append(errs, err)
	probability, err := meter.Float64ObservableGauge("tare_keep_share_probability", metric.WithUnit("1"), metric.WithDescription("Probability with which traces are kept that no other reason keeps."))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	with := func(more ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, attribute.String("processor", id.String()))...))
	}
	own := with()
	var reasons [numReasons]metric.ObserveOption
	for i, name := range reasonNames {
		reasons[i] = with(attribute.String("reason", name))
	}
	decided := func(decision string) metric.ObserveOption { return with(attribute.String("decision", decision)) }
	lateKept, lateDropped, lateReversed, lateUnknown := decided("kept"), decided("dropped"), decided("reversed"), decided("unknown")
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for i := range reasons {
			o.ObserveInt64(kept, int64(k.counts.kept[i]), reasons[i])
			if r := reason(i); r == byShare || r == byRule || r == byIncomplete {
				o.ObserveInt64(dropped, int64(k.counts.dropped[i]), reasons[i])
			}
		}
		o.ObserveInt64(spans, int64(k.counts.spansDropped), own)
		o.ObserveInt64(late, int64(k.counts.lateKept), lateKept)
		o.ObserveInt64(late, int64(k.counts.lateDropped), lateDropped)
		o.ObserveInt64(late, int64(k.counts.lateReversed), lateReversed)
		o.ObserveInt64(late, int64(k.counts.lateUnknown), lateUnknown)
		if k.seen != nil {
			o.ObserveInt64(over, int64(k.seen.overLimit), own)
		}
		if k.learned != nil {
			o.ObserveInt64(unlearned, int64(k.learned.unlearned), own)
			o.ObserveInt64(operations, int64(len(k.learned.operations)), own)
		}
		o.ObserveFloat64(probability, k.share.threshold.Probability(), own)
		return nil
	}, kept, dropped, spans, late, over, unlearned, operations, probability)
}
