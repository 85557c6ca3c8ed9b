package redactprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"

	"github.com/tare-trace/tare/otel/redact"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_redact")

// NewFactory makes the factory of tare_redact.
func NewFactory() processor.Factory {
	return processor.NewFactory(Type,
		func() component.Config { return &Config{} },
		processor.WithTraces(create, component.StabilityLevelBeta))
}

func create(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	rc, err := cfg.(*Config).load()
	if err != nil {
		return nil, err
	}
	r, err := redact.New(rc)
	if err != nil {
		return nil, err
	}
	m, err := metrics(set.MeterProvider, set.ID, r)
	if err != nil {
		return nil, err
	}
	return processorhelper.NewTraces(ctx, set, cfg, next, (&redactor{r}).process,
		processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
		processorhelper.WithShutdown(func(context.Context) error { return m.Unregister() }))
}
