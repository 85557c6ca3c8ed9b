// Package keep is tail sampling within one process: it decides whether a trace is
// exported when its work is done. A local trace that failed, was slow or matched a
// rule is exported although the head sampler had dropped it.
//
// A head sampler at 10% exports a trace for one failed request in ten. With
// keep, every failed request has a trace of this service, and about 10% of the
// others have one:
//
//	policy := keep.Policy{Errors: true, ServerErrors: true, SlowerThan: time.Second}
//	processor, err := keep.NewProcessor(sdktrace.NewBatchSpanProcessor(exporter), policy)
//	...
//	provider := sdktrace.NewTracerProvider(
//		sdktrace.WithSampler(keep.Sampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1)))),
//		sdktrace.WithSpanProcessor(processor),
//	)
//
// # Local traces
//
// A local trace is what this process knows of a trace: the spans with one trace
// id between the start of its local root (a span without a parent, or with a
// remote one) and the end of that root. If several local roots of one trace are
// open at a time (a process that calls itself), they make one local trace,
// which ends with the last of them. One decision holds for all its spans: as soon
// as one of them gives a reason to keep the trace, those that have ended are
// exported, and the others as they end; if none has when the local root ends, all
// are dropped.
// Spans that end later follow the decision, as long as it is remembered
// ([Policy.MaxLate]); so does a further local trace with the id of a kept one.
//
// # What other services do
//
// The sampling flag travels before anything is known about the outcome. A
// service downstream of a trace that the head did not sample sees "not sampled"
// and records nothing, unless it runs keep as well: then it decides for itself,
// and it has the trace if the failure or the delay was its own or reached it.
// The same holds upstream. A kept local trace is therefore complete for this
// service, and not more than that.
//
// # Counts
//
// The threshold `th` in the tracestate's `ot` member says with what probability
// a span was taken, and so for how many spans it stands. Failed traces that keep
// adds to those of the head must not be counted twice, and there are two ways:
//
//   - By default, spans that the head sampled are passed on as they end, with
//     the head's threshold and without delay or memory. They alone stand for all
//     traces, the failed ones too; kept spans therefore carry no threshold
//     (unknown probability), and a count must be made of spans with a threshold
//     only.
//   - With [Policy.ExactCounts] all local traces wait for their local root. A
//     local trace that the policy keeps has `ot=th:0` (probability 1) whether
//     the head had sampled it or not, all others have the head's threshold, and
//     every span can be counted by its threshold. The price: sampled spans need
//     memory until their root has ended, and are lost if the process dies before.
//
// Both need a head sampler that writes thresholds; the SDK's TraceIDRatioBased
// does not.
//
// # Bounds
//
// Memory is bounded in traces, spans per trace, bytes and age, by [Policy]. The
// oldest trace is evicted first, and is counted by reason ([Stats]). A span of it
// that ends later is decided alone, and if it is kept, so are the spans that end
// after it: a failed request has at least its root. Bounds are divided among shards:
// "oldest" is meant within a shard, and a shard never holds more than its share.
//
// # Cost
//
// A request that is dropped costs what the SDK needs to record its spans, which
// it would not have done without keep, and little more for the buffer. The
// benchmarks of this package show both parts. Package lean uses the same policy
// and records at a fraction of the SDK's cost.
//
// # What this package refuses to do
//
// It does not wait for other services, it does not hold traces beyond its
// bounds, and it does not export a span twice. It records nothing of what must
// not be recorded: spans that match the exceptions handed to [Sampler] are left
// to the head sampler.
package keep
