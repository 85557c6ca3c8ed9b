package storeextension

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/tare-trace/tare/internal/duration"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_store")

// NewFactory makes the factory of tare_store.
func NewFactory() extension.Factory {
	return extension.NewFactory(Type, defaultConfig, create, component.StabilityLevelBeta)
}

func defaultConfig() component.Config {
	return &Config{
		Directory: defaultDirectory(),
		Sync:      true,
		Retention: Retention{Age: duration.Duration(7 * 24 * time.Hour), Size: 10 << 30},
	}
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	return &storeExtension{config: cfg.(*Config), settings: set.TelemetrySettings}, nil
}
