package storeexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/tare-trace/tare/collector/storeextension"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_store")

// NewFactory makes the factory of tare_store.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(Type, defaultConfig, exporter.WithTraces(createTraces, component.StabilityLevelBeta), exporter.WithLogs(createLogs, component.StabilityLevelAlpha),
		exporter.WithMetrics(createMetrics, component.StabilityLevelAlpha))
}

func defaultConfig() component.Config {
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.Sizer = exporterhelper.RequestSizerTypeItems
	queue.QueueSize = 200_000
	// The store commits concurrent writes together: more writers would only wait.
	queue.NumConsumers = 2
	// Batching needs one fsync for many small messages.
	batch := queue.Batch.GetOrInsertDefault()
	batch.FlushTimeout = 200 * time.Millisecond
	batch.MinSize, batch.MaxSize = 8192, 0
	retry := configretry.NewDefaultBackOffConfig()
	retry.InitialInterval = 100 * time.Millisecond
	retry.MaxInterval = 5 * time.Second
	retry.MaxElapsedTime = 30 * time.Second
	return &Config{
		Store:         component.NewID(storeextension.Type),
		TimeoutConfig: exporterhelper.NewDefaultTimeoutConfig(),
		Queue:         configoptional.Some(queue),
		Retry:         retry,
	}
}

func createTraces(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	c := cfg.(*Config)
	e := &storeExporter{config: c}
	return exporterhelper.NewTraces(ctx, set, cfg, e.writeTraces, e.options()...)
}

func createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	c := cfg.(*Config)
	e := &storeExporter{config: c}
	return exporterhelper.NewLogs(ctx, set, cfg, e.writeLogs, e.options()...)
}

func createMetrics(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
	c := cfg.(*Config)
	e := &storeExporter{config: c}
	return exporterhelper.NewMetrics(ctx, set, cfg, e.writeMetrics, e.options()...)
}

func (e *storeExporter) options() []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithStart(e.start),
		exporterhelper.WithTimeout(e.config.TimeoutConfig),
		exporterhelper.WithQueue(e.config.Queue),
		exporterhelper.WithRetry(e.config.Retry),
	}
}
