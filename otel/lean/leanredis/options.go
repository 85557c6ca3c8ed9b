package leanredis

import (
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Option configures Instrument.
type Option func(*config)

type config struct {
	provider   trace.TracerProvider
	system     string
	attributes []attribute.KeyValue
	statement  bool
	caller     bool
	noDial     bool
	command    func(redis.Cmder) bool
	commands   func([]redis.Cmder) bool
}

func newConfig(opts []Option) *config {
	c := &config{
		provider:  otel.GetTracerProvider(),
		system:    "redis",
		statement: true,
		caller:    true,
		command:   DefaultCommandFilter,
		commands: func(cmds []redis.Cmder) bool {
			for _, cmd := range cmds {
				if DefaultCommandFilter(cmd) {
					return true
				}
			}
			return false
		},
	}
	for _, o := range opts {
		o(c)
	}
	return c
}

// WithTracerProvider sets where spans come from. Default: the global provider
// at the time of Instrument.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.provider = p
		}
	}
}

// WithAttributes adds attributes to every span.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	return func(c *config) { c.attributes = append(c.attributes, attrs...) }
}

// WithDBSystem sets db.system. Default: redis.
func WithDBSystem(system string) Option {
	return func(c *config) { c.system = system }
}

// WithDBStatement says whether spans carry db.statement: the command with its
// arguments, credentials redacted as rediscmd does. Default: true.
func WithDBStatement(on bool) Option {
	return func(c *config) { c.statement = on }
}

// WithCallerEnabled says whether spans carry code.function, code.filepath and
// code.lineno of who called go-redis. Default: true.
func WithCallerEnabled(on bool) Option {
	return func(c *config) { c.caller = on }
}

// WithCommandFilter sets which commands get no span: those for which filter
// says true. nil: none. Default: DefaultCommandFilter.
func WithCommandFilter(filter func(cmd redis.Cmder) bool) Option {
	return func(c *config) { c.command = filter }
}

// WithCommandsFilter is the same for pipelines and transactions. Default: those
// with a command that DefaultCommandFilter filters.
func WithCommandsFilter(filter func(cmds []redis.Cmder) bool) Option {
	return func(c *config) { c.commands = filter }
}

// WithDialFilter says whether dialing gets no span. Default: false.
func WithDialFilter(on bool) Option {
	return func(c *config) { c.noDial = on }
}

// DefaultCommandFilter filters AUTH, and HELLO with AUTH.
func DefaultCommandFilter(cmd redis.Cmder) bool {
	switch name := cmd.Name(); {
	case strings.EqualFold(name, "auth"):
		return true
	case strings.EqualFold(name, "hello"):
		args := cmd.Args()
		if len(args) < 3 {
			return false
		}
		arg, ok := args[2].(string)
		return ok && strings.EqualFold(arg, "auth")
	}
	return false
}
