package main

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// thesisNames of strategies, by OpenTelemetry's names for its environment.
var thesisNames = map[string]string{
	"traceidratio":             ratio,
	"parentbased_traceidratio": parentRatio,
}

// sampler of a strategy. The rate is that of the ratio strategies; those of
// OpenTelemetry obey a parent only if they say so.
func sampler(env *service.Env, strategy string, rate float64) (sdktrace.Sampler, error) {
	switch strategy {
	case alwaysOn:
		return sdktrace.AlwaysSample(), nil
	case alwaysOff:
		return sdktrace.NeverSample(), nil
	case ratio:
		return sdktrace.TraceIDRatioBased(rate), nil
	case parentRatio:
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(rate)), nil
	}
	return service.Sampler(env, strategy)
}

func startTracing(ctx context.Context, env *service.Env, s settings) (*service.Tracing, error) {
	if !s.tracing {
		return service.NoTracing(), nil
	}
	what, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("tare-thesis")),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, err
	}
	s.setup.Resource = what
	if s.collector != "" {
		if s.setup.Traces, err = url.JoinPath(s.collector, "v1", "traces"); err != nil {
			return nil, err
		}
	}
	if s.setup.Sampler, err = sampler(env, s.strategy, s.rate); err != nil {
		return nil, err
	}
	return service.StartTracing(ctx, s.setup)
}
