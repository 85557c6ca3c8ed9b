package leangrpc

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/tare-trace/tare/otel/lean/leangrpc"

// Option configures NewServerHandler and NewClientHandler.
type Option func(*config)

type config struct {
	provider    trace.TracerProvider
	propagators propagation.TextMapPropagator
}

func newConfig(opts []Option) *config {
	c := &config{provider: otel.GetTracerProvider(), propagators: otel.GetTextMapPropagator()}
	for _, o := range opts {
		o(c)
	}
	return c
}

// WithTracerProvider sets where spans come from. Default: the global provider at
// the time of the call.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.provider = p
		}
	}
}

// WithPropagators sets what reads and writes the metadata. Default: the global
// propagator at the time of the call.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return func(c *config) {
		if p != nil {
			c.propagators = p
		}
	}
}
