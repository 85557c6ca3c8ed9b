package collector

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/otelcol"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/guard"
)

// Options of a collector that runs within this process.
type Options struct {
	// Config are URIs: a path or "file:path", "yaml:" and YAML, or "env:" and the name of
	// a variable that holds YAML. Maps are merged; later ones win. Default: "yaml:" and
	// [DefaultConfig].
	Config []string
	// Factories, default [Components].
	Factories func() (otelcol.Factories, error)
	// Plaintext lets receivers listen without TLS on addresses that are not loopback.
	// Without it such a configuration is an error.
	Plaintext bool
	// Version of tare, for the collector's own telemetry.
	Version string
	// Log options come after those of the configuration.
	Log []zap.Option
	// Ready is called once, from a goroutine of Run, when all components run; it is not
	// called if a component fails to start, nor again after a reload.
	Ready func()
}

// errStopped is returned if a component failed while everything ran.
var errStopped = errors.New("the collector stopped by itself: the last error that it logged says why")

// Run runs a collector until ctx is done. Then the components stop in the order of the
// pipelines, queues are sent or kept on disk, and Run returns nil. SIGHUP reads the
// configuration again. Other signals are left to the caller.
func Run(ctx context.Context, o Options) error {
	col, err := otelcol.NewCollector(o.settings())
	if err != nil {
		return err
	}
	if o.Ready != nil {
		done := make(chan struct{})
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			if awaitRunning(col, done) {
				o.Ready()
			}
		}()
		defer func() { close(done); <-watching }()
	}
	err = col.Run(ctx)
	if err == nil && ctx.Err() == nil {
		return errStopped
	}
	return err
}

// awaitRunning polls, because the framework has no notification.
func awaitRunning(col *otelcol.Collector, done <-chan struct{}) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return false
		case <-tick.C:
			if col.GetState() == otelcol.StateRunning {
				return true
			}
		}
	}
}

func (o Options) settings() otelcol.CollectorSettings {
	uris := o.Config
	if len(uris) == 0 {
		uris = []string{"yaml:" + DefaultConfig}
	}
	factories := o.Factories
	if factories == nil {
		factories = Components
	}
	return otelcol.CollectorSettings{
		BuildInfo:               component.BuildInfo{Command: "tare", Description: "Tare's collector", Version: o.Version},
		Factories:               factories,
		DisableGracefulShutdown: true, // ctx ends it
		SkipSettingGRPCLogger:   true, // guard.LogPeers does
		LoggingOptions:          append([]zap.Option{guard.HideSecrets(), guard.LogPeers()}, o.Log...),
		ProviderModules: map[string]string{
			"env":  core + "confmap/provider/envprovider " + version(core+"confmap/provider/envprovider"),
			"file": core + "confmap/provider/fileprovider " + version(core+"confmap/provider/fileprovider"),
			"yaml": core + "confmap/provider/yamlprovider " + version(core+"confmap/provider/yamlprovider"),
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: uris,
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
			},
			DefaultScheme:      "env", // ${NAME} is the environment's
			ConverterFactories: []confmap.ConverterFactory{guard.NewFactory(o.Plaintext)},
		}},
	}
}
