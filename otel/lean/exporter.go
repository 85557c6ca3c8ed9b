package lean

import "context"

// Exporter sends finished spans. One that has a method Pressure() float64 tells how hard that is,
// see [TracerProvider.Pressure]. The provider calls Export from one goroutine, one call after
// another, and Shutdown once, after the last Export has returned.
type Exporter interface {
	// Export sends one ExportTraceServiceRequest (OTLP 1.x, protobuf) that holds `spans` spans.
	// request is valid until Export returns; whoever needs it longer copies it.
	//
	// rejected is the number of spans that the receiver refused while it took the others (OTLP's
	// partial success); the exporter itself reports the receiver's words to otel.Handle. An error
	// means that none of the spans arrived, after all the retries that ctx allowed.
	Export(ctx context.Context, request []byte, spans int) (rejected int, err error)

	// Shutdown releases what the exporter holds. It returns ctx's error if ctx ends first.
	Shutdown(ctx context.Context) error
}
