// Package otlphttp sends finished OTLP trace requests over HTTP, as the binary
// protobuf of OTLP 1.x: the exporter of package lean.
//
//	exporter, err := otlphttp.New() // from OTEL_EXPORTER_OTLP_*
//	provider := lean.NewTracerProvider(lean.WithExporter(exporter))
//
// Beside the standard library it links only OpenTelemetry's API (to report
// what a receiver refused) and protobuf's wire format: neither gRPC nor
// generated OTLP messages.
//
// # Configuration
//
// Options win over variables. OTEL_EXPORTER_OTLP_TRACES_X takes the place of
// OTEL_EXPORTER_OTLP_X:
//
//	ENDPOINT           http://localhost:4318; https if certificates are configured. As base URL
//	                   (without TRACES_), /v1/traces is added to its path; for traces it is used as it
//	                   is. The scheme decides about TLS.
//	INSECURE           true or false: overrides the endpoint's scheme with http or https
//	HEADERS            key1=value1,key2=value2; values percent-encoded
//	TIMEOUT            10000; milliseconds that one attempt may take, 0 for no limit
//	COMPRESSION        none; or gzip
//	CERTIFICATE        file of the authorities that may vouch for the server, PEM
//	CLIENT_CERTIFICATE file of the client's certificate, PEM; with CLIENT_KEY
//	CLIENT_KEY         file of the client's private key, PEM
//
// They mean what they mean to the official exporter (otlptracehttp), whose
// options have the same names here. OTEL_EXPORTER_OTLP_PROTOCOL is not read:
// this package is http/protobuf. HTTP_PROXY, HTTPS_PROXY and NO_PROXY count.
//
// # Where it differs from the official exporter
//
//   - A value that makes no sense is an error of [New] that names the variable,
//     not a log line.
//   - Without an endpoint requests go in plain text to this machine, as OTLP
//     specifies; the official exporter tries TLS there.
//   - An unreachable or disconnecting server is retried, as the OTLP
//     specification asks for; the official exporter retries only what calls
//     itself temporary. What cannot pass by itself is not retried: a certificate
//     that is not trusted, HTTP where TLS is expected.
//   - gzip works at its fastest level: the host's CPU is what tracing must not use.
//   - Redirects: see below.
//
// # Failures
//
// 429, 502, 503 and 504 are retried ([RetryConfig]) with exponential back-off
// and jitter, not before the time in Retry-After, as long as the context of the
// export and MaxElapsedTime allow. Every other status is an error that carries
// the server's message.
//
// After a failure to connect, the name of the server is not looked up and no
// connection is tried for up to two seconds: exports that come meanwhile fail at
// once, with the same error. A collector whose name does not resolve gets no
// storm of DNS queries, however much there is to send and whatever is retried.
//
// A 2xx status means that the spans arrived, whatever the body says. The number
// of spans that the receiver rejected is returned; its message goes, as
// [PartialSuccess], to OpenTelemetry's error handler (otel.SetErrorHandler), and
// so does a body that cannot be understood. At most 4 MiB of a body are read.
//
// A redirect is followed only if it keeps the method and the body (307, 308),
// stays on the host and does not leave https. Any other one is an error that
// names the target: after a 301, 302 or 303 a client would send a GET without
// the spans and take its 200 for success, and headers with keys would go to a
// host that nobody configured.
//
// # What it refuses
//
// It does not batch, queue or encode spans, and does not keep them after
// Export returns. It is not traced: it uses a transport of its own, not
// http.DefaultTransport, and the values of the caller's context do not reach it.
package otlphttp
