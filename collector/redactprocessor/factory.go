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
		processor.WithTraces(createTraces, component.StabilityLevelBeta),
		processor.WithLogs(createLogs, component.StabilityLevelAlpha))
}

func createTraces(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	r, options, err := create(set, cfg, "traces")
	if err != nil {
		return nil, err
	}
	return processorhelper.NewTraces(ctx, set, cfg, next, r.process, options...)
}

func createLogs(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
	r, options, err := create(set, cfg, "logs")
	if err != nil {
		return nil, err
	}
	return processorhelper.NewLogs(ctx, set, cfg, next, r.processLogs, options...)
}

// create makes the redactor of a signal, which counts by itself.
func create(set processor.Settings, cfg component.Config, signal string) (*redactor, []processorhelper.Option, error) {
	rc, err := cfg.(*Config).load()
	if err != nil {
		return nil, nil, err
	}
	r, err := redact.New(rc)
	if err != nil {
		return nil, nil, err
	}
	m, err := metrics(set.MeterProvider, set.ID, signal, r)
	if err != nil {
		return nil, nil, err
	}
	return &redactor{r}, []processorhelper.Option{
		processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: true}),
		processorhelper.WithShutdown(func(context.Context) error { return m.Unregister() }),
	}, nil
}
