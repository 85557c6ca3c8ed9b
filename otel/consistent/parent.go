package consistent

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// FollowParent is the decision of a parent-based sampler for a span whose
// parent is psc, which must be valid: the parent's sampled flag is the
// decision, and its tracestate is passed on.
//
// As the specification asks, a threshold that contradicts the flag (sampled,
// although the randomness is below the threshold) is erased: whoever set it, a
// later stage has sampled for another reason, with a probability that nobody
// knows. Under a parent that is not sampled the tracestate is passed on as it
// is; nothing is recorded that could be counted.
func FollowParent(psc trace.SpanContext) sdktrace.SamplingResult {
	ts := psc.TraceState()
	if !psc.IsSampled() {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: ts}
	}
	if ts.Len() > 0 {
		if th, ok := ThresholdOf(ts); ok && !th.Samples(OfParent(ts, psc.TraceID())) {
			ts = WithoutThreshold(ts)
		}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: ts}
}

// ParentBased returns a sampler that asks root for spans without a parent and
// follows the parent otherwise, by [FollowParent]. It differs from the SDK's
// sampler of this name in what it does with a contradictory threshold, and in
// being cheaper.
func ParentBased(root sdktrace.Sampler) sdktrace.Sampler {
	uses, ok := root.(interface{ UsesAttributes() bool })
	return &parentBased{root: root, usesAttributes: !ok || uses.UsesAttributes()}
}

type parentBased struct {
	root           sdktrace.Sampler
	usesAttributes bool
}

func (s *parentBased) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if psc := trace.SpanContextFromContext(p.ParentContext); psc.IsValid() {
		return FollowParent(psc)
	}
	return s.root.ShouldSample(p)
}

// Description implements [sdktrace.Sampler].
func (s *parentBased) Description() string {
	return "ConsistentParentBased{root:" + s.root.Description() + "}"
}

// UsesAttributes reports whether the root sampler reads a span's attributes.
func (s *parentBased) UsesAttributes() bool { return s.usesAttributes }
