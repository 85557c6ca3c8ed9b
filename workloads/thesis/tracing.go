package main

import (
	"context"
	"errors"
	"net/url"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
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

// sampler of a strategy. The rate is that of the ratio strategies; a parent's
// decision is obeyed by the parent-based one only.
func sampler(strategy string, rate float64) (sdktrace.Sampler, error) {
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
	return nil, errors.New("SAMPLING_STRATEGY: the adaptive sampler is a library that is not built in yet: choose another strategy")
}

func startTracing(ctx context.Context, s settings) (*service.Tracing, error) {
	chosen, err := sampler(s.strategy, s.rate)
	if err != nil {
		return nil, err
	}
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
	var to []otlptracehttp.Option
	if s.collector != "" {
		traces, err := url.JoinPath(s.collector, "v1", "traces")
		if err != nil {
			return nil, err
		}
		to = append(to, otlptracehttp.WithEndpointURL(traces))
	}
	return service.StartTracing(ctx, []sdktrace.TracerProviderOption{
		sdktrace.WithSampler(chosen),
		sdktrace.WithResource(what),
	}, to...)
}
