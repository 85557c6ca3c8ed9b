// Package otlpenv reads the OTEL_EXPORTER_OTLP_* variables that the HTTP and
// the gRPC exporter share, for traces: a variable OTEL_EXPORTER_OTLP_TRACES_X
// takes the place of OTEL_EXPORTER_OTLP_X as a whole. An empty value counts as
// unset (OpenTelemetry specification, "Environment Variable Specification").
//
// Unlike the official exporters, which log a value that they do not understand
// and go on without it, it returns an error that names the variable: headers
// that do not arrive or a certificate that is not used are otherwise found out
// in production. Errors never show the value of a header.
package otlpenv
