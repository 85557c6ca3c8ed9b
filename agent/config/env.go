package config

import (
	"errors"
	"strings"
)

// applyEnvironment reads Tare's and OpenTelemetry's variables. It ignores unknown TARE_*
// variables, because Kubernetes sets some in every pod if there is a service called tare
// (such as TARE_PORT, which is why the selectors' variables are in the plural).
func applyEnvironment(c *Config, env map[string]string) error {
	var errs []error
	for _, s := range settings {
		if v, ok := env[s.env]; ok {
			errs = append(errs, s.set(c, s.env, v))
		}
	}
	var selectors []selector
	for _, kind := range selectorKinds {
		for text := range strings.SplitSeq(env[selectorVariable(kind)], ",") {
			if text = strings.TrimSpace(text); text != "" {
				selectors = append(selectors, selector{kind, text})
			}
		}
	}
	errs = append(errs, applySelectors(c, selectors, selectorVariable))
	if v, ok := env["TARE_LINKING"]; ok {
		errs = append(errs, applyLinking(c, "TARE_LINKING", v))
	}
	return errors.Join(errs...)
}

func selectorVariable(kind string) string { return "TARE_" + strings.ToUpper(kind) + "S" }

// applySelectors replaces the rules, if there are any selectors.
func applySelectors(c *Config, selectors []selector, where func(kind string) string) error {
	if len(selectors) == 0 {
		return nil
	}
	var errs []error
	c.Services = nil
	for _, s := range selectors {
		r, err := s.rule(where(s.kind))
		errs = append(errs, err)
		c.Services = append(c.Services, r)
	}
	return errors.Join(errs...)
}

// applyLinking sets the linking of every rule that has none.
func applyLinking(c *Config, where, text string) error {
	l, err := parseLinking(where, text)
	for i := range c.Services {
		if c.Services[i].Linking == Auto {
			c.Services[i].Linking = l
		}
	}
	return err
}
