package bound

import (
	"context"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/extension"
	"go.uber.org/zap"
)

// HealthCheck gives the servers of the extension health_check time-outs, of which it has
// none, and refuses pages of other sites.
func HealthCheck(log func(*zap.Logger) *zap.Logger) extension.Factory {
	f := healthcheckextension.NewFactory()
	return extension.NewFactory(f.Type(), f.CreateDefaultConfig,
		func(ctx context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
			c := cfg.(*healthcheckextension.Config) //nolint:errcheck // the factory's
			set.Logger = log(set.Logger)
			m, err := newMiddlewares(set.ID, set.TelemetrySettings, Servers{HTTP: []HTTP{{Config: &c.Config.ServerConfig}}})
			if err != nil {
				return nil, err
			}
			e, err := f.Create(ctx, set, cfg)
			if err != nil {
				return nil, err
			}
			if _, ok := e.(statusWatcher); ok {
				return e, nil // its second version, which has settings of its own
			}
			if w, ok := e.(pipelineWatcher); ok {
				return &watchingServer{server{w, m}, w}, nil
			}
			return &server{e, m}, nil
		}, f.Stability())
}

// Prometheus does so for the exporter prometheus.
func Prometheus(log func(*zap.Logger) *zap.Logger) exporter.Factory {
	f := prometheusexporter.NewFactory()
	return exporter.NewFactory(f.Type(), f.CreateDefaultConfig,
		exporter.WithMetrics(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
			c := cfg.(*prometheusexporter.Config) //nolint:errcheck // the factory's
			set.Logger = log(set.Logger)
			m, err := newMiddlewares(set.ID, set.TelemetrySettings, Servers{HTTP: []HTTP{{Config: &c.ServerConfig}}})
			if err != nil {
				return nil, err
			}
			e, err := f.CreateMetrics(ctx, set, cfg)
			if err != nil {
				return nil, err
			}
			return &metricsServer{e, m}, nil
		}, f.MetricsStability()))
}

// server starts a component with its middlewares.
type server struct {
	component.Component
	middlewares middlewares
}

func (s *server) Start(ctx context.Context, h component.Host) error {
	return s.Component.Start(ctx, host{h, s.middlewares})
}

type metricsServer struct {
	exporter.Metrics
	middlewares middlewares
}

func (s *metricsServer) Start(ctx context.Context, h component.Host) error {
	return s.Metrics.Start(ctx, host{h, s.middlewares})
}

// pipelineWatcher is what health_check is in addition: the framework asks for it by type.
type pipelineWatcher interface {
	extension.Extension
	Ready() error
	NotReady() error
}

type statusWatcher interface {
	ComponentStatusChanged(*componentstatus.InstanceID, *componentstatus.Event)
}

type watchingServer struct {
	server
	watcher pipelineWatcher
}

func (s *watchingServer) Ready() error    { return s.watcher.Ready() }
func (s *watchingServer) NotReady() error { return s.watcher.NotReady() }
