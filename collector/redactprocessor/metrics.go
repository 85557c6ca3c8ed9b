package redactprocessor

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tare-trace/tare/otel/redact"
)

// metrics publishes the redactor's counts; the package comment lists them.
func metrics(provider metric.MeterProvider, id component.ID, signal string, r *redact.Redactor) (metric.Registration, error) {
	meter := provider.Meter("github.com/tare-trace/tare/collector/redactprocessor")
	redacted, err1 := meter.Int64ObservableCounter("tare_redact_redacted", metric.WithUnit("{value}"), metric.WithDescription("Values replaced, found inside texts, or removed, by rule."))
	notAllowed, err2 := meter.Int64ObservableCounter("tare_redact_not_allowed", metric.WithUnit("{attribute}"), metric.WithDescription("Attributes dropped because the allow list lacks their key."))
	unsettled, err3 := meter.Int64ObservableCounter("tare_redact_unsettled", metric.WithUnit("{value}"), metric.WithDescription("Values masked as a whole, because redacting their text did not end or because they are nested too deeply."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	with := func(more ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, attribute.String("processor", id.String()), attribute.String("signal", signal))...))
	}
	own := with()
	rules := map[string]metric.ObserveOption{}
	for name := range r.Stats().Redacted {
		rules[name] = with(attribute.String("rule", name))
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := r.Stats()
		for name, n := range s.Redacted {
			o.ObserveInt64(redacted, int64(n), rules[name])
		}
		o.ObserveInt64(notAllowed, int64(s.NotAllowed), own)
		o.ObserveInt64(unsettled, int64(s.Unsettled), own)
		return nil
	}, redacted, notAllowed, unsettled)
}
