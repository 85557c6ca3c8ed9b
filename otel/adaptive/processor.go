package adaptive

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Processor returns a span processor that observes each local root span when
// it ends: one without a parent, or with a remote one. The route is the span's
// name, or its [WithRouteAttribute] attribute; it failed if its status is Error.
//
// The SDK shows processors only what is recorded. So the sampler learns about
// a problem only when a request that has it is sampled, unless
// [WithRecordOnly] is set. Use either Processor or [Sampler.Observe], or
// requests count twice.
func (s *Sampler) Processor() sdktrace.SpanProcessor { return processor{s} }

type processor struct{ s *Sampler }

func (processor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p processor) OnEnd(span sdktrace.ReadOnlySpan) {
	if parent := span.Parent(); parent.IsValid() && !parent.IsRemote() {
		return
	}
	o := Observation{
		Failed:   span.Status().Code == codes.Error,
		Duration: span.EndTime().Sub(span.StartTime()),
	}
	if p.s.maxRoutes > 0 {
		o.Route = span.Name()
		if p.s.routeAttribute != "" {
			if v, ok := routeIn(span.Attributes(), p.s.routeAttribute); ok {
				o.Route = v
			}
		}
	}
	p.s.Observe(o)
}

// Shutdown does not end the sampler, which other providers may use.
func (processor) Shutdown(context.Context) error { return nil }

func (processor) ForceFlush(context.Context) error { return nil }
