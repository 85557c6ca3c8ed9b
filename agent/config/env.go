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
		for _, text := range listed(env[selectorVariable(kind)]) {
			selectors = append(selectors, selector{kind, text})
		}
	}
	return errors.Join(append(errs, applySelectors(c, selectors, selectorVariable))...)
}

// listed are the texts between commas.
func listed(v string) (texts []string) {
	for text := range strings.SplitSeq(v, ",") {
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
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

// applyLinking reads "thread", for services that are not recognised, and
// "shop=thread", for the rules of that name, however they are recognised.
func applyLinking(c *Config, where string, texts []string) error {
	var errs []error
	for _, text := range texts {
		name, mode, ofRule := strings.Cut(strings.TrimSpace(text), "=")
		if !ofRule {
			mode = name
		}
		l, err := parseLinking(where, mode)
		errs = append(errs, err)
		if !ofRule {
			c.Linking = l
			continue
		}
		found := false
		for i := range c.Services {
			if r := &c.Services[i]; name != "" && r.Name == name {
				r.Linking, found = l, true
			}
		}
		if !found {
			errs = append(errs, &Error{where, text, "the name of a rule before the ="})
		}
	}
	return errors.Join(errs...)
}
