package guard

import (
	"context"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
)

// LimitMemory sets Go's memory limit to the point at which a factory's memory limiters
// begin to refuse data: limit_mib less spike_limit_mib. Otherwise the garbage collector
// lets the heap double before it runs, and the limiter refuses data although most of the
// heap is garbage. It changes nothing if GOMEMLIMIT is set, or if the limiter's limit is
// a percentage.
func LimitMemory(f processor.Factory) processor.Factory {
	return processor.NewFactory(f.Type(), f.CreateDefaultConfig,
		processor.WithTraces(func(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
			limitHeap(cfg)
			return f.CreateTraces(ctx, set, cfg, next)
		}, f.TracesStability()),
		processor.WithMetrics(func(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Metrics) (processor.Metrics, error) {
			limitHeap(cfg)
			return f.CreateMetrics(ctx, set, cfg, next)
		}, f.MetricsStability()),
		processor.WithLogs(func(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
			limitHeap(cfg)
			return f.CreateLogs(ctx, set, cfg, next)
		}, f.LogsStability()))
}

func limitHeap(cfg component.Config) {
	c, ok := cfg.(*memorylimiterprocessor.Config)
	if !ok || c.MemoryLimitMiB == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	spike := c.MemorySpikeLimitMiB
	if spike == 0 {
		spike = c.MemoryLimitMiB / 5 // as the limiter has it
	}
	debug.SetMemoryLimit(int64(c.MemoryLimitMiB-min(spike, c.MemoryLimitMiB-1)) << 20)
}
