// Package otlpgrpc sends finished OTLP trace requests over gRPC: the exporter
// of package lean for a collector that has no HTTP port. It links
// google.golang.org/grpc; a service that does not do so anyway is better off
// with otlphttp.
//
//	exporter, err := otlpgrpc.New() // from OTEL_EXPORTER_OTLP_*
//	provider := lean.NewTracerProvider(lean.WithExporter(exporter))
//
// # Configuration
//
// Options win over variables. OTEL_EXPORTER_OTLP_TRACES_X takes the place of
// OTEL_EXPORTER_OTLP_X:
//
//	ENDPOINT           http://localhost:4317; https if certificates are configured. Of http and https URLs host and port are the target and the
//	                   scheme decides about TLS; anything else is a gRPC target ("dns:///collector:4317",
//	                   "collector:4317"), with TLS unless it is unix: or INSECURE says so
//	INSECURE           true or false: overrides the endpoint's scheme
//	HEADERS            key1=value1,key2=value2; values percent-encoded; sent as gRPC metadata
//	TIMEOUT            10000; milliseconds that an export may take with all its retries, 0 for no limit
//	COMPRESSION        none; or gzip
//	CERTIFICATE        file of the authorities that may vouch for the server, PEM
//	CLIENT_CERTIFICATE file of the client's certificate, PEM; with CLIENT_KEY
//	CLIENT_KEY         file of the client's private key, PEM
//
// They mean what they mean to the official exporter (otlptracegrpc), whose
// options have the same names here; as there, certificates win over INSECURE and
// over http. A value that makes no sense is an error of [New] that names the
// variable.
//
// # Failures
//
// The codes CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE and
// DATA_LOSS are retried ([RetryConfig]) with exponential back-off and jitter, and
// RESOURCE_EXHAUSTED if the server says when (a RetryInfo detail); never before
// the delay that RetryInfo asks for, and as long as the timeout, the context of
// the export and MaxElapsedTime allow. Every other code is an error with the
// server's message.
//
// The number of spans that the receiver rejected is returned; its message goes,
// as [PartialSuccess], to OpenTelemetry's error handler (otel.SetErrorHandler).
// Responses of more than 4 MiB are refused by gRPC.
//
// # What it refuses
//
// It does not batch, queue or encode spans, and does not keep them after Export
// returns. The values of the caller's context, its outgoing metadata included,
// do not reach the call.
//
// The request is not encoded again: compressed, it is read where it is; plain, it
// is copied once, since gRPC may still be writing it when a call has ended.
package otlpgrpc
