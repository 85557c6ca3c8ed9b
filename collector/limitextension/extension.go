// Package limitextension is the collector's extension tare_limits: bounds of names, keys and values that all receivers
// of the distribution keep, and of how many a span has. Without it they have the same bounds by default; it is there
// to change them.
//
//	extensions:
//	  tare_limits:
//	    name: 1024       # bytes
//	    key: 256
//	    value: 32768
//	    attributes: 128  # of a span, an event, a link, a resource, a scope, a log record
//	    events: 128      # of a span
//	    links: 128
//	service:
//	  extensions: [tare_limits, …]
//
// What is beyond is cut or dropped, marked by the attribute tare.cut, and counted in tare_receiver_cut.
package limitextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/tare-trace/tare/collector/internal/limit"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_limits")

// Config of tare_limits.
type Config = limit.Limits

// NewFactory makes the factory of tare_limits.
func NewFactory() extension.Factory {
	return extension.NewFactory(Type,
		func() component.Config { of := limit.Default(); return &of },
		func(_ context.Context, _ extension.Settings, cfg component.Config) (extension.Extension, error) {
			return &limits{of: *cfg.(*Config)}, nil
		}, component.StabilityLevelBeta)
}

type limits struct {
	component.StartFunc
	component.ShutdownFunc
	of limit.Limits
}

var _ limit.From = (*limits)(nil)

// Limits returns the bounds.
func (l *limits) Limits() limit.Limits { return l.of }
