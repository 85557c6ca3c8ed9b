package keepprocessor

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_keep")

// NewFactory makes the factory of tare_keep.
func NewFactory() processor.Factory {
	return processor.NewFactory(Type,
		func() component.Config { return defaultConfig() },
		processor.WithTraces(create, component.StabilityLevelBeta))
}

func create(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	c := cfg.(*Config)
	if c.keepsAll() {
		return processorhelper.NewTraces(ctx, set, cfg, next, pass,
			processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}))
	}
	k, err := newKeeper(c)
	if err != nil {
		return nil, err
	}
	m, err := k.metrics(set.MeterProvider, set.ID)
	if err != nil {
		return nil, err
	}
	return processorhelper.NewTraces(ctx, set, cfg, next, k.process,
		processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
		processorhelper.WithShutdown(func(context.Context) error { return m.Unregister() }))
}
