package logexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_log")

// NewFactory makes the factory of tare_log.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(Type, defaultConfig, exporter.WithTraces(create, component.StabilityLevelAlpha))
}

func defaultConfig() component.Config {
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.Sizer = exporterhelper.RequestSizerTypeItems
	queue.QueueSize = 200_000
	queue.NumConsumers = 1 // lines are written one after the other
	return &Config{Queue: configoptional.Some(queue)}
}

func create(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	c := cfg.(*Config)
	e := &logExporter{config: c, settings: set}
	return exporterhelper.NewTraces(ctx, set, cfg, e.write,
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithQueue(c.Queue))
}
