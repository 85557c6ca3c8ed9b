package agentreceiver

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/collector/internal/limit"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_agent")

// Option changes the configuration of the receivers that a factory makes.
type Option func(*Config)

// Configured sets a configuration that was read elsewhere: from the flags, file and
// environment of a command. reload reads it again when the file changes; if it is nil,
// the configuration never changes. Keys in the collector's configuration are then an
// error.
func Configured(cfg config.Config, reload func() (config.Config, error)) Option {
	return func(c *Config) {
		c.Agent = cfg
		c.reload = reload
		if reload == nil {
			c.reload = func() (config.Config, error) { return cfg, nil }
		}
	}
}

// Log sets the agent's log; by default it writes to the collector's.
func Log(log *slog.Logger) Option { return func(c *Config) { c.log = log } }

// NewFactory makes the factory of receiver tare_agent.
func NewFactory(opts ...Option) receiver.Factory {
	return limit.Receivers(receiver.NewFactory(Type,
		func() component.Config {
			c := &Config{Agent: config.Default()}
			for _, o := range opts {
				o(c)
			}
			return c
		},
		receiver.WithTraces(create, component.StabilityLevelBeta)))
}

func create(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	return newReceiver(set, cfg.(*Config), next, agent.Run)
}
