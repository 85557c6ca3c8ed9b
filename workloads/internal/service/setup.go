package service

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/adaptive"
	"github.com/tare-trace/tare/otel/contextaware"
	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/ratelimit"
)

// Pipelines: what builds and sends the spans, and what instruments.
const (
	Official = "official" // OpenTelemetry's SDK, otelhttp and redisotel
	Lean     = "lean"     // Tare's lean pipeline, leanhttp and leanredis
)

// Strategies that OpenTelemetry has no sampler for. They obey a parent.
const (
	Adaptive     = "adaptive"
	RateLimiting = "rate_limiting"
	ContextAware = "context_aware"
)

// Setup is how the process is traced.
type Setup struct {
	Pipeline string
	// Sampler is nil if OpenTelemetry's environment says it.
	Sampler  sdktrace.Sampler
	Resource *resource.Resource // nil: as the environment has it
	Traces   string             // URL that traces are sent to; "": as the environment has it
	Keep     bool               // what fails, or takes longer than KeepSlow, is kept whatever the sampler says
	KeepSlow time.Duration
	Redact   bool // spans pass redaction with its defaults
	// AlertToken is what Alertmanager has to send so that the adaptive sampler listens to it; "": it does not.
	AlertToken string
}

// ReadSetup reads the variables that all services have: PIPELINE, KEEP,
// KEEP_SLOWER_THAN, REDACT.
func ReadSetup(env *Env) Setup {
	return Setup{
		Pipeline: env.OneOf("PIPELINE", Official, Official, Lean),
		Keep:     env.Bool("KEEP", false),
		KeepSlow: env.Duration("KEEP_SLOWER_THAN", time.Second, time.Hour),
		Redact:   env.Bool("REDACT", false),
	}
}

// CheckAdaptive notes what is wrong with ADAPTIVE_*, also where nothing uses it.
func CheckAdaptive(env *Env) {
	if _, err := adaptive.FromEnv(); err != nil {
		env.Fail(err)
	}
}

// Sampler of a strategy of Tare's, which reads its own variables: ADAPTIVE_*,
// RATE_LIMIT (traces per second), CONTEXT_SAMPLER_RULES.
func Sampler(env *Env, strategy string) (sdktrace.Sampler, error) {
	switch strategy {
	case Adaptive:
		c, err := adaptive.FromEnv()
		if err != nil {
			return nil, err
		}
		return adaptive.New(adaptive.WithConfig(c))
	case RateLimiting:
		limit := env.Float("RATE_LIMIT", 5, 0.001, 1e6)
		if err := env.Err(); err != nil {
			return nil, err
		}
		return ratelimit.New(limit), nil
	case ContextAware:
		return contextaware.FromEnv()
	}
	return nil, fmt.Errorf("there is no strategy %q", strategy)
}

// policy of keep.
func (s Setup) policy() keep.Policy {
	return keep.Policy{Errors: true, ServerErrors: true, SlowerThan: s.KeepSlow}
}
