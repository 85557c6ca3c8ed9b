// Package w3c reads and writes W3C Trace Context (level 1, with the random
// flag of level 2) and W3C Baggage, at next to no cost where a request carries
// neither.
//
//	otel.SetTextMapPropagator(w3c.Propagator{})
//
// [Propagator] carries trace context and baggage; [TraceContext] only the
// former. Both are propagation.TextMapPropagators, fit for any carrier, with a
// short way through propagation.HeaderCarrier. Instrumentation that needs no
// context.Context in between calls [FromHeader] and [ToHeader].
//
// The results are those of the official propagation.TraceContext and
// propagation.Baggage for every header that occurs once (a fuzz test compares
// them), two points of the official reading of version 00 included that the
// specification leaves to the reader: flags above 03 are refused, a lone "-"
// after the flags is not. Where a header is repeated, the official propagator
// looks at the first only; this package does what the specification asks:
//
//   - several tracestate headers are one list, joined in their order
//     (W3C Trace Context §3.3, RFC 9110 §5.3);
//   - several traceparent headers are none: it is unknown which one speaks the
//     truth, so a new trace begins (test_traceparent_duplicated of the W3C's
//     suite).
//
// What it refuses: it does not repair. A traceparent that breaks a rule is
// ignored together with its tracestate; a tracestate that breaks one is
// ignored, and its traceparent used.
package w3c
