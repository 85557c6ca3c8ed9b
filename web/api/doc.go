// Package api is Tare's JSON API, /api/v1: all that the page shows, for programs. It
// reads the store and never writes.
//
//	services                          services with spans stored
//	operations?service=               span names of a service
//	traces?service&operation&kind&min&max&status=error|ok&state=complete|unlinked|incomplete
//	      &retro=any|error|slow|no_response|reset|open|outside|capture&attr=key=value&roots=true&calls&start&end|last&limit&after&sort=time|duration|spans
//	                                  traces with a span that meets all conditions: the newest, the
//	                                  longest, or those with the most spans first
//	overview?columns=60 and the conditions of traces but limit, after, sort
//	                                  how many traces these are, when they began, how long they took
//	traces/{id}?attributes=false      a trace, analysed by package waterfall, and the log records beside it
//	traces/{id}/spans/{span}?n=0      one of its spans with all details; n counts spans of equal id
//	traces/{id}/otlp                  the trace as OTLP/JSON
//	diagnose?share=0.02&traces=5000 and the conditions of traces but min, max, limit, after
//	                                  what makes the slowest share of these traces slow, by package
//	                                  rootcause: of the newest traces, as many as asked for, or as can
//	                                  be read in half of the time limit (then "more" is true)
//	map?start&end|last                the service map, by default of the last hour; measured: of metrics, since no span shows it
//	latencies?service&by=operation&start&end|last
//	                                  quantiles by service, or by operation, by default of the last hour
//	health                            the configured Prometheus endpoints, read by package health
//	stats                             the store
//
// attr is a condition on an attribute of the span or its resource: key=value, where * in
// the value is any text (\* is a star), key!=value, key<number, key<=number, key>number,
// key>=number. Only key=value without a * has an index to use.
//
// state and retro (why the trace was kept retroactively) are of whole traces, all other conditions of one span.
//
// With calls=B, service is the caller: the search finds calls from A to B as the map
// counts them, and the other conditions apply to the span that measures the call.
//
// Times in a query are milliseconds since 1970-01-01 UTC, RFC 3339, or last=1h; durations
// are Go's (1.5s, 300ms). A parameter that is unknown, repeated or out of range is
// answered with 400 and what is allowed, because ignoring a filter would give a wrong
// result that looks right. An error is {"error": "text"}.
//
// What does not fit into an answer is left out, and counted in the answer: left_out of a list, more_services of a trace in a
// list, cut of a trace, dropped of a span, too_large of a diagnosis. Texts that are very long end with a mark (package
// span/text). Queries that cannot run now are answered with 429 (the client has too many) or 503, and Retry-After.
//
// A reader whose context has a scope (store.WithScope) gets what the scope allows, as if nothing else were stored;
// hidden_spans of a trace is how many of its spans are left out, hidden_parent says that a span's parent is among them.
//
// Attribute values are strings with their type beside them, and start_unix_ns is a
// string, because readers that parse numbers as doubles would round those beyond 2^53.
// Times within a trace are nanoseconds since its start. Requests, errors and rates are
// estimates, weighted by sampling probability; spans are what is stored of the traces that count. One that was kept
// retroactively counts in no estimate: its weight is 0 (package store/weight). A quantile is
// null if it is unknown: for a peer that is not traced and has several callers.
package api
