// Package consistent is OpenTelemetry's consistent probability sampling: the
// rejection threshold th and the randomness rv in the tracestate's ot member
// (specification "TraceState: Probability Sampling"; OTEP 235).
//
// All spans of a trace have the same 56 random bits: the last ones of the trace
// id, or rv where the root said so. A span is sampled if and only if they are
// not below the threshold, which follows from the probability alone. So
// services that sample with different probabilities still agree: what the lower
// probability samples is a subset of what the higher one does. And because
// the threshold travels with the span, anyone can tell how many spans it stands
// for:
//
//	th, ok := consistent.ThresholdOf(span.SpanContext().TraceState())
//	if ok {
//		requests += consistent.AdjustedCount(th)
//	}
//
// A sampler builds a [Rate] once and asks it for every root span; [FollowParent]
// is the rest of a parent-based sampler. As a sampler for a provider:
//
//	sdktrace.WithSampler(consistent.ParentBased(consistent.NewRate(0.05)))
//
// # Precision
//
// [FromProbability] is exact to 2^-57, half of the last of 56 bits. The digits
// go on the wire with every request, so [NewRate] rounds to four significant
// ones, as the specification recommends ("th:f333" is 5%). What is written is
// what is applied: counts are scaled by the probability that was in force.
//
// # What it refuses
//
// A th or rv that is not valid (no digits, too many, other characters, given
// twice) counts as absent. What is not th or rv is kept byte for byte. Where a
// threshold cannot be stated, because the list would exceed 256 characters or
// nothing is sampled at all, none is stated, rather than a wrong one.
//
// The package does not make trace ids random: a custom id generator whose last
// 56 bits are not needs [WithRandomness] at the root.
package consistent
