package keep

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// kept is a span that the policy exports: the SDK's, with the sampled flag,
// without which batch processors ignore it, and the tracestate that says the
// probability.
type kept struct {
	sdktrace.ReadOnlySpan
	context, parent trace.SpanContext
}

// SpanContext returns the span's context, sampled.
func (k *kept) SpanContext() trace.SpanContext { return k.context }

// Parent returns the parent's context. A local parent is exported with this
// span and therefore sampled, too; whether a remote one was is not known here.
func (k *kept) Parent() trace.SpanContext { return k.parent }

// wrap makes *k the span that is exported in place of s.
func (k *kept) wrap(policy *Compiled, s sdktrace.ReadOnlySpan, r Reason) {
	sc, parent := s.SpanContext(), s.Parent()
	if parent.IsValid() && !parent.IsRemote() {
		parent = sampled(policy, parent, r)
	}
	*k = kept{s, sampled(policy, sc, r), parent}
}

func sampled(policy *Compiled, sc trace.SpanContext, r Reason) trace.SpanContext {
	return sc.WithTraceFlags(sc.TraceFlags() | trace.FlagsSampled).
		WithTraceState(policy.State(sc.TraceState(), r))
}
