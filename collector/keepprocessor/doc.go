// Package keepprocessor is the collector's processor tare_keep: it decides which
// whole traces stay.
//
//	processors:
//	  tare_keep:
//	    errors: any                    # any, root, server, none
//	    slow:
//	      slower_than: 2s              # 0: no absolute limit
//	      operations:                  # the first that matches decides
//	        - {service: report, name: "GET /monthly/*", slower_than: 1m}
//	      learn: {quantile: 0.99}      # 0: nothing is learned
//	    rare: {first: 3, interval: 10m}
//	    rules:
//	      - {name: "GET /health*", root: true, probability: 0}
//	      - {attributes: {shop.customer.tier: gold}}
//	    incomplete: share              # keep, share, drop
//	    share: {probability: 1, traces_per_second: 50}
//
// It stands behind tare_tracer, whose calls hold whole traces only, decides at
// once, and holds no spans.
//
// # What is kept, and the reason that is recorded
//
// In this order; the first that applies is what the top span's tare.keep.reason
// says and the counter tare_keep_traces_kept counts:
//
//	(dropped)   incomplete traces with incomplete: drop; a rule with probability 0
//	error       errors: any: a span with status error, or a server span answered
//	            with HTTP 500 or more; root: the top span is one of these;
//	            server: a server span is
//	slow        the root took longer than slower_than, or than the learned
//	            quantile of its operation (service and name)
//	rare        a path that was not seen often in this interval: the root's
//	            operation and the set of its calls, each from service, name and
//	            kind to service, name and kind
//	rule        the first rule that a span matches, with its probability
//	incomplete  incomplete: keep
//	share       what remains, with the share's probability
//
// Rules use the patterns of package otel/rule, against a span and its resource.
//
// With the default configuration (share: {probability: 1}) everything is kept:
// spans pass unread, and no reason is recorded or counted.
//
// # Counts stay right
//
// What is kept for certain keeps the threshold th in its tracestate (OTEP 235)
// that it came with. What is kept with a probability has th raised to it on
// every span, and the decision compares the same bits of the trace (rv, or the
// trace id) as every other stage that samples consistently: a probability of
// 0.1 means 10% of all requests, not of those that a sampler left over, and
// several collectors agree. So the sum of 1/probability over the kept traces
// estimates how many requests there were, without bias: by the reason, by the
// operation, whatever the traces are grouped by. Spans without th count as kept
// with probability 1 until then, and a th that the trace's bits contradict
// counts as none.
//
// share.traces_per_second lowers the share's probability until the rate holds.
// The probability follows the traffic with the time constant share.adapt: when
// n times the rate sets in after a quiet time, about traces_per_second × adapt ×
// (1 + ln n) traces are kept beyond the rate until it holds. The gauge
// tare_keep_share_probability shows where it is. Nothing is cut off beyond the
// probability, for that could not be stated in th.
//
// # What is learned
//
// The durations of complete roots, in buckets that grow by 4%: a threshold lies
// within 4% above the exact quantile of what was counted. It holds after
// learn.after observations of its operation (2,000 for 0.99), and nothing is
// called slow before. Counts are halved after four times as many, or 8,192, so
// that the past fades. Operations are bounded; one that was not seen for ten
// minutes makes room, and roots that find none are counted
// (tare_keep_unlearned).
//
// Paths are counted in four rows of 16,384 counters by hash. Two paths may meet
// in all four: then a rare one passes for seen. With 1,000 paths in an interval
// that happens to fewer than one in 10,000, with 10,000 to one in 25. It never
// keeps more: rare.at_most bounds the traces per interval, for services that
// put ids into span names.
//
// # Late spans
//
// A span that tare_tracer marks late follows the decision on its trace, with
// the same th, as long as that is among the last remember decisions (about
// 100 bytes each); else it is kept, and counted as unknown.
//
// # What it refuses
//
// It does not wait or group: without tare_tracer before it, put a groupbytrace
// processor there, or decisions are about parts of traces. It does not forward
// decisions to other collectors: all spans of a trace must come to one, as the
// load-balancing exporter sees to.
//
// Compared with the tail_sampling processor of OpenTelemetry's contributions:
// there are no OTTL conditions, no bounds on a trace's number of spans, no
// selection by trace state or flags, no negation (put the exception first), and
// no limits in bytes or spans per second, nor a division of a rate among
// policies. A transform processor before this one can turn an OTTL condition
// into an attribute that a rule matches.
package keepprocessor
