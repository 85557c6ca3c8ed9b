package config

import (
	"cmp"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// FromKeys reads what a file may hold from keys that were decoded already, by a
// collector's configuration for instance. Neither the environment nor a file
// counts. Where names the place in errors, such as "receivers::tare_agent".
func FromKeys(where string, keys map[string]any) (Config, error) {
	c := Default()
	var n yaml.Node
	if err := n.Encode(keys); err != nil {
		return c, fmt.Errorf("%s: %w", where, err)
	}
	f := &file{name: where}
	f.mapping(&n, "", f.topLevel(&c))
	if err := errors.Join(f.errs...); err != nil {
		return c, err
	}
	return c, c.complete()
}

// complete checks what is left when all is read, and derives what follows
// from it. Only ErrNoServices leaves a configuration that is whole.
func (c *Config) complete() error {
	if c.argGiven && !c.samplerGiven {
		c.Sampler = "parentbased_traceidratio" // a probability alone says what is wanted
	}
	if _, _, err := Threshold(c.Sampler, c.SamplerArg); err != nil {
		return err
	}
	if v, ok := c.Resource["service.name"]; ok {
		// OpenTelemetry: OTEL_SERVICE_NAME wins over the resource's service.name.
		c.ServiceName = cmp.Or(c.ServiceName, v)
		delete(c.Resource, "service.name")
	}
	if len(c.Services) == 0 {
		return ErrNoServices
	}
	return nil
}
