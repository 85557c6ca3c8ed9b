// Package api is Tare's JSON API, /api/v1: what the page shows, for whoever
// wants to ask from a program. It reads the store and never writes.
//
//	services                          services with spans stored
//	operations?service=               span names of a service
//	traces?service&operation&kind&min&max&status=error|ok&state=complete|incomplete
//	      &attr=key=value&roots=true&calls&start&end|last&limit&after
//	                                  traces with a span that meets every condition, the newest first
//	traces/{id}?attributes=false      a trace, analysed by package waterfall
//	traces/{id}/spans/{span}?n=0      one of its spans with all that it has; n counts spans of equal id
//	traces/{id}/otlp                  the trace as OTLP/JSON
//	map?start&end|last                who calls whom; of the last hour if nothing is said
//	latencies?service&by=operation&start&end|last
//	                                  quantiles by service, or by operation; likewise
//	health                            what the configured Prometheus endpoints say, by package health
//	stats                             the store
//
// With calls=B, service is the caller: calls from A to B as the map counts them,
// and the other conditions are held against the span that measures the call.
//
// Times in a query are milliseconds since 1970-01-01 UTC, RFC 3339, or
// last=1h; durations are Go's (1.5s, 300ms). A parameter that is unknown, twice
// there or out of range gets 400 with what is allowed: a filter that was
// dropped in silence would give a wrong answer that looks right. An error is
// {"error": "text"}.
//
// Attribute values are text with their type beside it, and start_unix_ns is
// text: numbers beyond 2^53 would be rounded by readers that take them for
// doubles. Times within a trace are nanoseconds since its start. Requests,
// errors and rates are weighted by sampling; spans are what is stored. A
// quantile is null where it is not known: a peer that is not traced and has
// several callers.
package api
