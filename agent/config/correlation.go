package config

import (
	"slices"
	"strings"
)

// DefaultCorrelation are the headers by which calls are linked that nothing else links,
// where the application forwards them.
var DefaultCorrelation = []string{"traceparent", "b3", "x-b3-traceid", "x-request-id", "x-correlation-id", "uber-trace-id"}

const (
	maxHeader  = 31 // bytes of a name
	maxHeaders = 32 // names, those of all rules together
)

// parseCorrelation reads names of headers, or "none" alone. Its result is never nil.
func parseCorrelation(where string, names []string) ([]string, error) {
	list := []string{}
	if len(names) == 1 && names[0] == "none" {
		return list, nil
	}
	for _, name := range names {
		name = strings.ToLower(name)
		if !isHeader(name) {
			return list, &Error{where, name, "names of headers, each of 2 to 31 letters, digits and -._, or none alone"}
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

func isHeader(name string) bool {
	if len(name) < 2 || len(name) > maxHeader || name == "none" {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// CorrelationOf are the headers that link the calls of a rule's services.
func (c *Config) CorrelationOf(r *Rule) []string {
	if r.Correlation != nil {
		return r.Correlation
	}
	return c.Correlation
}

// CorrelationNames are all headers that link calls of some service.
func (c *Config) CorrelationNames() []string {
	names := slices.Clone(c.Correlation)
	for i := range c.Services {
		for _, name := range c.Services[i].Correlation {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
