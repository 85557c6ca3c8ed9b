package config

import (
	"net/url"
	"strings"
)

// parseResource reads OTEL_RESOURCE_ATTRIBUTES: comma-separated key=value pairs,
// percent-encoded as in W3C baggage. As the specification requires, an error discards the
// whole value; here it also stops the agent.
func parseResource(c *Config, where, text string) error {
	parsed := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue // a trailing comma
		}
		k, v, ok := strings.Cut(pair, "=")
		key, err1 := url.PathUnescape(strings.TrimSpace(k))
		value, err2 := url.PathUnescape(strings.TrimSpace(v))
		if !ok || key == "" || err1 != nil || err2 != nil {
			return &Error{where, pair, "key=value, with , = and % inside written as %2C %3D %25"}
		}
		parsed[key] = value
	}
	for k, v := range parsed {
		c.Resource[k] = v
	}
	return nil
}
