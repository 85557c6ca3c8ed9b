package limit

import (
	"errors"
	"fmt"

	"github.com/tare-trace/tare/span/text"
)

// Limits are bounds of what is received: lengths in bytes, and numbers.
type Limits struct {
	// Name of a service, a span, an event, a scope or a metric, and of what else becomes a name, such as a peer's
	// address or a route. A longer one is cut, and ends with "…#" and a hash of the whole name.
	Name int `mapstructure:"name"`
	// Key of an attribute. An attribute with a longer one is dropped. Metrics keep it, cut like a name.
	Key int `mapstructure:"key"`
	// Value of an attribute, with all that it contains; also a status message. A longer text is cut, and ends with
	// "…[+N bytes]". The body of a log record may be as long as the store takes, 64 KiB, if Value is not more.
	Value int `mapstructure:"value"`
	// Attributes of a span, a resource, a scope, a log record; also of an event and of a link.
	Attributes int `mapstructure:"attributes"`
	// Events and Links of a span.
	Events int `mapstructure:"events"`
	Links  int `mapstructure:"links"`
}

// body is the bound of a text in the body of a log record.
func (l *Limits) body() int { return max(l.Value, 64<<10) }

// Default is what OpenTelemetry's SDKs have for numbers. They bound no lengths.
func Default() Limits {
	return Limits{Name: text.MaxName, Key: text.MaxKey, Value: text.MaxValue, Attributes: 128, Events: 128, Links: 128}
}

// Validate reports every value that is out of range.
func (l *Limits) Validate() error {
	var errs []error
	check := func(key string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %d is not between %d and %d", key, value, low, high))
		}
	}
	check("name", l.Name, text.MinBound, text.MostName)
	check("key", l.Key, text.MinBound, text.MostName)
	check("value", l.Value, text.MinBound, 1<<30)
	check("attributes", l.Attributes, 1, 1<<20)
	check("events", l.Events, 0, 1<<20)
	check("links", l.Links, 0, 1<<20)
	return errors.Join(errs...)
}

// From is what an extension offers that has limits for the whole collector.
type From interface{ Limits() Limits }
