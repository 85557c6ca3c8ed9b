// Package ratelimit is a sampler that limits traces per second, so that the
// cost of tracing does not grow with the traffic (Hoikka 2026, 2.4).
//
//	sdktrace.WithSampler(ratelimit.New(100)) // at most 100 traces a second
//
// By default it is parent-based: it decides for root spans only, and others
// follow their parent. There are two modes.
//
// [Leaky], the default, samples every root span while there are tokens, and none
// after. In any time T no more than limit × T + burst traces start. What it samples
// is no fair share: it prefers the first requests after a pause to the many of a
// busy second, and the probability of each is unknown. So its spans carry no threshold (th) and
// counts cannot be scaled back.
//
// [Consistent] turns the limit into a probability that follows the traffic,
// measured anew every second, and earlier when it surges. Each span carries its
// th, counts can be scaled back, and other services can agree (package
// consistent). The price is that the limit is not used up: the probability aims
// below it, by 4/burst (at least 5%, at most 50%), so that random bursts seldom
// empty the bucket. The bucket stays as the hard limit. When it does refuse a trace that the
// probability had chosen, then from there to the end of the measuring interval
// the probability is unknown, and sampled spans carry no th; [Stats] counts the
// refused. Scaled counts then lack the spans of that time.
//
// The limit holds for one sampler: ten replicas sample ten times as much.
//
// # Cost
//
// A decision for a root span reads the monotonic clock once; this is what it
// costs beyond the SDK's TraceIDRatioBased. Memory that other cores read is written
// only for traces that have been chosen, that is about as often as the limit says.
// There is no lock, no goroutine and no timer, hence nothing to shut down. Nothing
// is allocated, except by the mode Consistent when it measures, about once a second.
package ratelimit
