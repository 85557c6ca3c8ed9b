package service

import "context"

// Switched reads how the process is traced: not at all unless ENABLE_OTEL is not
// empty; else by PIPELINE, KEEP, KEEP_SLOWER_THAN and REDACT (see ReadSetup), and by
// SAMPLER, one of Tare's own with its variables (see Sampler), or what OpenTelemetry's
// variables say.
func Switched(ctx context.Context, env *Env) (*Tracing, error) {
	setup := ReadSetup(env)
	strategy := env.OneOf("SAMPLER", "", Adaptive, RateLimiting, ContextAware)
	on := env.String("ENABLE_OTEL", "") != ""
	if err := env.Err(); err != nil {
		return nil, err
	}
	if !on {
		return NoTracing(), nil
	}
	if strategy != "" {
		var err error
		if setup.Sampler, err = Sampler(env, strategy); err != nil {
			return nil, err
		}
	}
	return StartTracing(ctx, setup)
}

// Pipeline is Official or Lean, and "" if tracing is off.
func (t *Tracing) Pipeline() string {
	if t.pipeline == nil {
		return ""
	}
	return t.setup.Pipeline
}
