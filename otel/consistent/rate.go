package consistent

import (
	"strconv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Rate is a sampling probability, ready for decisions: its threshold and the
// tracestate that says so are built once, so that a decision for a root span
// allocates nothing. It is immutable and may be shared.
//
// A Rate is a sampler itself that decides for every span alike, whatever its
// parent says. Wrap it in [ParentBased] to follow the parent.
type Rate struct {
	threshold Threshold
	state     trace.TraceState
}

var _ sdktrace.Sampler = (*Rate)(nil)

// NewRate returns the rate of probability p, to [Precision] significant digits:
// the relative error is at most 2^-13. 1 and more sample everything; 0, less and
// NaN nothing.
func NewRate(p float64) *Rate { return RateOf(FromProbability(p).Round(Precision)) }

// RateOf returns the rate of exactly the threshold th.
func RateOf(th Threshold) *Rate {
	th = min(th, Never)
	return &Rate{threshold: th, state: State(th)}
}

// Threshold returns the rejection threshold.
func (r *Rate) Threshold() Threshold { return r.threshold }

// Decide decides for a span of the trace id with the parent psc, which may be
// invalid (then the span is a root). The parent's sampled flag is not looked
// at; its explicit randomness is. A sampled span carries th; one that is
// dropped carries none, because nothing was sampled with that probability.
func (r *Rate) Decide(psc trace.SpanContext, id trace.TraceID) sdktrace.SamplingResult {
	ts := psc.TraceState()
	if ts.Len() == 0 { // a root, as a rule
		if r.threshold.Samples(OfTraceID(id)) {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: r.state}
		}
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	if r.threshold.Samples(OfParent(ts, id)) {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: WithThreshold(ts, r.threshold)}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: WithoutThreshold(ts)}
}

// ShouldSample implements [sdktrace.Sampler].
func (r *Rate) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return r.Decide(trace.SpanContextFromContext(p.ParentContext), p.TraceID)
}

// Description implements [sdktrace.Sampler], as "ConsistentProbability{0.05}".
func (r *Rate) Description() string {
	return "ConsistentProbability{" + strconv.FormatFloat(r.threshold.Probability(), 'g', Precision, 64) + "}"
}

// UsesAttributes returns false: the decision is made from the trace id alone.
func (r *Rate) UsesAttributes() bool { return false }
