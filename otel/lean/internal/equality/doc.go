// Package equality holds lean to what the official SDK does: the same [Program], written against the
// OpenTelemetry API alone, runs once on each, both send over HTTP to a receiver on the loopback, and the
// decoded requests must be equal, span by span.
//
// Compared are all fields of every span, its scope and its resource, attributes in their order, dropped
// counts, flags, schema URLs, the presence of messages, and what the program itself saw ([Env.Note]: span
// contexts, injected headers, recovered panics). Two things cannot be equal and are put in a form that
// can be compared:
//
//   - Times. A time that the program gave must arrive as given. A time that a clock gave must lie within
//     the run, and start <= event <= end, child not before parent.
//   - Ids. A sequential program runs twice: with an id generator that counts, where ids must be equal
//     exactly, and with each provider's own, where an id is replaced by the place of its span in the
//     tree, wherever it occurs. Ids of spans that were not exported are then only told apart.
//
// A stack trace is compared by being one. How spans are grouped into requests, and their order in a
// request, is no part of the comparison: OTLP gives it no meaning. Groups without spans, fields unknown
// to OTLP and ids of a wrong length are errors all the same.
//
// The programs are in the package's tests, next to a generator of random ones ([Random]) and the cases
// of W3C Trace Context. Where lean differs on purpose, a test says so and why; nothing is excused by
// leaving it out of the comparison.
package equality
