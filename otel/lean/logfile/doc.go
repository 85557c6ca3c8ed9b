// Package logfile is an exporter that writes spans as structured logs: one line of JSON per span, or
// one per request, into a file that it rotates. Whoever has no trace backend can read traces with
// what reads logs, and `tare logs` makes trace trees of the files.
//
//	exporter, err := logfile.New(logfile.Config{Path: "/var/log/shop/spans.jsonl"})
//	…
//	provider := lean.NewTracerProvider(lean.WithExporter(exporter))
//	defer provider.Shutdown(context.Background())
//
// # The line
//
// Its fields are those of OpenTelemetry's logs data model, by their names there: Timestamp,
// ObservedTimestamp, TraceId, SpanId, TraceFlags, SeverityText, SeverityNumber, Body, Resource,
// InstrumentationScope, Attributes, EventName. Times are nanoseconds since 1970 as decimal strings,
// since numbers beyond 2^53 are rounded by many readers; ids are hexadecimal. Timestamp is the span's
// start, Body its name, the severity ERROR (17) if its status is an error and else INFO (9), and
// EventName is [EventName]. What a log record has no field for is in one attribute, [SpanKey]: parent,
// kind, duration, status, tracestate, events, links, counts of what was dropped. Attributes of the service
// that have this name, or [BelowKey], are left out.
//
// Integers are written without, doubles with a decimal point or an exponent. Bytes, NaN and infinities,
// which JSON has not, are objects as in OTLP's JSON: {"bytesValue":"…"}, {"doubleValue":"NaN"}.
//
// # One line per request
//
// With [Config.PerRequest], the spans below a local root (a span without a parent, or with one of
// another process) are in the local root's line, in its attribute [BelowKey], as records without
// TraceId, ObservedTimestamp and Resource. They are held until the local root ends. What ends after
// it, or is held for too long or beyond a bound of memory, has a line of its own: nothing is dropped.
//
// # Files
//
// A file is created with mode 0600, written by one system call per batch, and renamed when it is too
// large or too old: to its name, a dot and the UTC time. The oldest renamed files are removed so that all
// together stay below a bound. Whoever rotates files by other means may: a file that was renamed or
// removed is created again.
//
// A line is in the kernel when Export returns, so that it survives a crash of the process. Unless
// [Config.Sync] is set, it is not synced: a crash of the kernel or a power failure loses what was not
// written back yet, usually the last half minute. Bytes after the last newline of a file are from a
// write that was interrupted.
//
// Spans that cannot be written, for instance since the disk is full, are dropped at once, counted
// ([Stats]), and reported as the exporter's error; the next batch is tried again. The service never waits
// for the file: lean exports from a goroutine of its own.
package logfile
