package pageextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/extension"

	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/web"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_page")

// DefaultEndpoint is the page's address unless configured.
const DefaultEndpoint = "127.0.0.1:4680"

// NewFactory makes the factory of tare_page.
func NewFactory() extension.Factory {
	return extension.NewFactory(Type, defaultConfig, create, component.StabilityLevelBeta)
}

func defaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = DefaultEndpoint
	server.ReadHeaderTimeout = 10 * time.Second
	server.ReadTimeout = 30 * time.Second
	server.WriteTimeout = time.Minute // enough for a query and a large trace to a slow reader
	server.MaxRequestBodySize = 1     // no request has a body; 0 would mean the default
	return &Config{
		ServerConfig: server,
		Store:        component.MustNewID("tare_store"),
		QueryTimeout: web.DefaultTimeout,
	}
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	set.Logger = guard.Bounded(set.Logger) // whoever connects makes the server log
	return &pageExtension{config: cfg.(*Config), settings: set}, nil
}
