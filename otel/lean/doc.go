// Package lean is a trace.TracerProvider for the OpenTelemetry API that costs a fraction of the
// SDK's, and sends the same OTLP.
//
// A span is written as OTLP protobuf while it is being set, in a reused buffer. When it ends, its
// bytes are appended to one of several queues, so that processors do not wait for each other, and
// one goroutine makes requests of them and hands these to an [Exporter]: packages otlphttp and
// otlpgrpc below this one have two. Span and context take one allocation, with or without sampling.
//
//	exporter, err := otlphttp.New() // OTEL_EXPORTER_OTLP_* as usual
//	…
//	provider := lean.NewTracerProvider(lean.WithExporter(exporter))
//	defer provider.Shutdown(context.Background())
//	otel.SetTracerProvider(provider)
//
// # The same
//
// Samplers, resource, limits, id generators and the OTEL_* variables that concern them are the
// SDK's (v1.47), and behave as there: what a receiver decodes is equal, span by span, but for what
// is listed below. Limits count and cut as the SDK's do; an exception event is made of a panic
// that ends a span; runtime/trace tasks are started when that tracer runs.
//
// # Different
//
//   - There are no span processors: they would have to decode what has been written. Redaction
//     ([WithRedactor]) is built in, at the place where it costs least.
//   - Text that is not UTF-8 is mended with U+FFFD. The official exporter loses the whole batch.
//   - The queue is bounded in bytes, too, and every loss is counted by reason: [Stats].
//   - SamplingParameters.ParentContext of a new root, or of a span whose parent came from a
//     propagator by [Start], is valid during the call only.
//   - A span's times come from the monotonic clock, put on the wall clock at least every 10 s. As
//     in the SDK, a span that is given neither start nor end never ends before it started.
//   - After Shutdown, a tracer passes its caller's span context on, instead of making spans that
//     go nowhere.
//
// # Keep
//
// With [WithKeep], local traces that the sampler drops are recorded too, held as encoded bytes, and
// exported if package keep's policy wants them. The same policy gives the same spans as
// keep.Processor on the SDK, with one exception: two requests of one trace that this process serves
// at the same time are two local traces here.
//
// # For instrumentation
//
// [Tracer.Decide] asks the sampler before anything is allocated; [Tracer.StartIn] and
// [Tracer.DropIn] start the span in memory that the instrumentation needs anyway. [TracerOf] tells
// whether a provider is one of this package.
//
// # Concurrency
//
// Everything but option functions may be called from many goroutines at once. A provider has one
// goroutine, if it has an exporter; [TracerProvider.Shutdown] ends it.
package lean
