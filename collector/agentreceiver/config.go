package agentreceiver

import (
	"errors"
	"log/slog"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/tare-trace/tare/agent/config"
)

// Config of tare_agent. Its keys are those of the agent's file, docs/agent.md, except
// export and print: spans go to the pipeline.
type Config struct {
	// Agent is the agent's whole configuration. Its Queue bounds the spans that wait for
	// the pipeline; Export and Print are not used.
	Agent config.Config `mapstructure:"-"`

	reload func() (config.Config, error)
	log    *slog.Logger
	keep   *Kept          // nil: each receiver has an agent of its own
	given  map[string]any // the keys as they were read, for Marshal
	err    error          // config.ErrNoServices, which Validate reports
}

var (
	_ component.Config    = (*Config)(nil)
	_ confmap.Marshaler   = (*Config)(nil)
	_ confmap.Unmarshaler = (*Config)(nil)
)

// Unmarshal reads the keys of `receivers: tare_agent:` with the parser of the agent's own
// file. Errors name the key, its value and what is allowed.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if conf == nil {
		return nil
	}
	keys := conf.ToStringMap()
	if len(keys) == 0 {
		return nil // keep the configuration that the factory was made with
	}
	if c.reload != nil {
		return errors.New("tare_agent was configured by the command's flags, its file and the environment: set it there")
	}
	for _, key := range []string{"export", "print"} {
		if _, ok := keys[key]; ok {
			return &config.Error{Where: where + "::" + key, Value: "", Allowed: "no such key: spans go to the pipeline's exporters"}
		}
	}
	agent, err := config.FromKeys(where, keys)
	if err != nil && !errors.Is(err, config.ErrNoServices) {
		return err
	}
	c.Agent, c.err, c.given = agent, err, keys
	return nil
}

const where = "receivers::tare_agent"

// Marshal returns the keys as they were read.
func (c *Config) Marshal(conf *confmap.Conf) error {
	return conf.Merge(confmap.NewFromStringMap(c.given))
}

// errNoServices replaces config.ErrNoServices, which names flags instead of keys.
var errNoServices = errors.New("services: nothing is selected; give at least one rule, such as {ports: [8080]} or " +
	`{executable: "*/nginx"}; docs/agent.md has them all`)

// Validate rejects a configuration that selects no service.
func (c *Config) Validate() error {
	if c.err != nil || len(c.Agent.Services) == 0 {
		return errNoServices
	}
	return nil
}
