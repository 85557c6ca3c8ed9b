package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FromKeys reads a file's keys that were decoded already, for instance by a collector. It
// reads neither the environment nor a file. where is the place for errors, such as
// "receivers::tare_agent".
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

// complete checks the configuration after all is read, and derives values from others.
// Except after ErrNoServices, a configuration with an error must not be used.
func (c *Config) complete() error {
	if c.argGiven && !c.samplerGiven {
		c.Sampler = "parentbased_traceidratio" // a probability alone implies it
	}
	if _, _, err := Threshold(c.Sampler, c.SamplerArg); err != nil {
		return err
	}
	if c.Tag == TagNone {
		if err := c.withoutTags(); err != nil {
			return err
		}
	}
	if v, ok := c.Resource["service.name"]; ok {
		// OpenTelemetry: OTEL_SERVICE_NAME wins over the resource's service.name.
		c.ServiceName = cmp.Or(c.ServiceName, v)
		delete(c.Resource, "service.name")
	}
	if names := c.CorrelationNames(); len(names) > maxHeaders {
		return &Error{"correlation", strings.Join(names, ","), fmt.Sprintf("at most %d headers in all rules together", maxHeaders)}
	}
	if len(c.Services) == 0 {
		return ErrNoServices
	}
	for i := range c.Services {
		if r := &c.Services[i]; r.WantsCluster() && !c.AsksCluster() {
			return &Error{"kubernetes", c.Kubernetes, "on (in a pod also auto), where a rule selects by what only the cluster's API knows: " + r.String()}
		}
	}
	return nil
}

// withoutTags sees to it that a collector can join what no tag connects.
func (c *Config) withoutTags() error {
	if c.sequenceGiven && !c.Sequence {
		return &Error{"sequence", "off", "on, with tag: none: only stream offsets tell then which spans belong together"}
	}
	c.Sequence = true
	return nil
}
