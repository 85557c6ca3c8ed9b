// Package otlpwire decodes the few messages that a receiver of traces sends
// back: ExportTraceServiceResponse (opentelemetry-proto, collector/trace/v1),
// google.rpc.Status and google.rpc.RetryInfo. They are small and rare, so this
// needs no generated code, and a service that imports the HTTP exporter does
// not link the OTLP messages or gRPC. Unknown fields are skipped; of a field
// that is there twice the last one counts, as protobuf wants it.
package otlpwire
