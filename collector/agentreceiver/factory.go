package agentreceiver

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/config"
)

// Type is what the receiver is called in a configuration: tare_agent.
var Type = component.MustNewType("tare_agent")

// Option changes the receivers that a factory makes.
type Option func(*Config)

// Configured gives the receiver a configuration that was read elsewhere: the
// flags, file and environment of a command. Reload reads it again when the file
// changes; nil: never. Keys in the collector's configuration are refused then.
func Configured(cfg config.Config, reload func() (config.Config, error)) Option {
	return func(c *Config) {
		c.Agent = cfg
		c.reload = reload
		if reload == nil {
			c.reload = func() (config.Config, error) { return cfg, nil }
		}
	}
}

// Log is where the agent writes what it finds and what goes wrong; without it,
// that goes to the collector's log.
func Log(log *slog.Logger) Option { return func(c *Config) { c.log = log } }

// NewFactory makes the factory of receiver tare_agent.
func NewFactory(opts ...Option) receiver.Factory {
	return receiver.NewFactory(Type,
		func() component.Config {
			c := &Config{Agent: config.Default()}
			for _, o := range opts {
				o(c)
			}
			return c
		},
		receiver.WithTraces(create, component.StabilityLevelBeta))
}

func create(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	return newReceiver(set, cfg.(*Config), next, agent.Run)
}
