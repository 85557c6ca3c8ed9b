// Package keepprocessor is the collector's processor tare_keep. It does tail
// sampling: it decides for whole traces which are kept.
//
//	processors:
//	  tare_keep:
//	    errors: any                    # any, root, server, none
//	    slow:
//	      slower_than: 2s              # 0: no absolute limit
//	      operations:                  # the first that matches applies
//	        - {service: report, name: "GET /monthly/*", slower_than: 1m}
//	      learn: {quantile: 0.99}      # 0: nothing is learned
//	    rare: {first: 3, interval: 10m}
//	    rules:
//	      - {name: "GET /health*", root: true, probability: 0}
//	      - {attributes: {shop.customer.tier: gold}}
//	    incomplete: share              # keep, share, drop
//	    share: {probability: 1, traces_per_second: 50}
//
// Place it directly after tare_tracer, which passes whole traces. It decides on them
// at once and holds no spans.
//
// # What is kept, and for which reason
//
// The reasons are tried in this order. The first that applies is recorded in the top
// span's tare.keep.reason and counted in tare_keep_traces_kept:
//
//	(dropped)   incomplete traces with incomplete: drop; a rule with probability 0
//	retro       the agent kept it retroactively (tare.retro), and no span has a
//	            threshold th
//	error       errors: any: a span with status error, or a server span answered
//	            with HTTP 500 or more; root: the top span is one of these;
//	            server: a server span is
//	slow        the root took longer than slower_than, or than the learned
//	            quantile of its operation (service and name)
//	rare        few traces in this interval had the same path: the root's operation
//	            and the set of its calls, each from service, name and kind to
//	            service, name and kind
//	rule        the first rule that a span matches, with the rule's probability
//	incomplete  incomplete: keep
//	share       all other traces, with the share's probability
//
// Rules match a span and its resource by the patterns of package otel/rule.
//
// With the default configuration (share: {probability: 1}) everything is kept:
// spans are passed on unread, and no reason is recorded or counted.
//
// # Estimated counts are unbiased
//
// A trace that is kept for certain keeps the threshold th in its tracestate (OTEP
// 235) as it arrived. If it is kept with a probability, th is raised accordingly on
// all its spans. The decision compares the same random bits of the trace (rv, or the
// trace id) as every other consistent sampler: a probability of 0.1 means 10% of all
// requests, not of those that an earlier sampler kept, and several collectors decide
// alike. Therefore the sum of 1/probability over the kept traces is an unbiased
// estimate of the number of requests, in whatever way the traces are grouped. Spans
// without th count as sampled with probability 1 before; so do spans whose th
// contradicts the random bits of their trace. Traces kept by retro are no sample: they
// stand for no requests (package store/weight), do not count for the share and are not
// learned from.
//
// share.traces_per_second lowers the share's probability to keep this rate. The
// probability follows the traffic with the time constant share.adapt: if traffic of
// n times the rate begins after a quiet time, about traces_per_second × adapt ×
// (1 + ln n) more traces are kept than the rate allows before it holds. The gauge
// tare_keep_share_probability shows the current value. There is no hard limit beyond
// the probability, because th could not express it.
//
// # What is learned
//
// The durations of complete roots are counted in buckets that grow by 4%, so a
// learned limit is at most 4% above the exact quantile. It applies after learn.after
// observations of its operation (2,000 for 0.99); before, nothing is called slow.
// Counts are halved after four times as many observations, at least 8,192, so that
// old ones lose weight. The number of operations is bounded; one that was not seen
// for ten minutes may be evicted. Roots whose operation could not be added are
// counted (tare_keep_unlearned).
//
// Paths are counted by hash in four rows of 16,384 counters. A rare path that shares
// all four counters with others counts as seen before. With 1,000 paths in an
// interval this happens to fewer than one in 10,000, with 10,000 to one in 25. The
// opposite error does not occur; and if services put ids into span names, so that
// every path is new, rare.at_most bounds the traces kept per interval.
//
// # Late spans
//
// A span that tare_tracer marks as late gets the decision on its trace, with the same
// th, if this is among the last decisions remembered (remember; about 100 bytes
// each). Otherwise the span is kept, and counted as unknown. Late spans that the agent
// kept retroactively keep a trace that was dropped, as a failed one does.
//
// # What it does not do
//
// It does not wait for spans or group them: without tare_tracer before it, put a
// groupbytrace processor there, else it decides about parts of traces. It does not
// forward decisions to other collectors: all spans of a trace must reach the same
// one, for example by the load-balancing exporter.
//
// Compared with the tail_sampling processor of OpenTelemetry's contrib repository,
// there are no OTTL conditions, no bounds on the number of spans of a trace, no
// selection by trace state or flags, no negation (put the exception first), no limits
// in bytes or spans per second, and no division of a rate among policies. A transform
// processor before this one can turn an OTTL condition into an attribute that a rule
// matches.
package keepprocessor
