package retroextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/extension"

	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/span/keep"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_retro")

// NewFactory makes the factory of tare_retro.
func NewFactory() extension.Factory {
	return extension.NewFactory(Type, defaultConfig, create, component.StabilityLevelBeta)
}

func defaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = "127.0.0.1:4319"
	server.ReadHeaderTimeout = 10 * time.Second
	server.ReadTimeout = 30 * time.Second
	server.WriteTimeout = 30 * time.Second
	server.MaxRequestBodySize = keep.MaxBody
	server.CompressionAlgorithms = []string{""} // none: bodies are small
	return &Config{ServerConfig: server, TracesPerSecond: 500}
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	set.Logger = guard.Bounded(set.Logger) // whoever connects makes the server log
	return &retroExtension{config: cfg.(*Config), settings: set}, nil
}
