package lean_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean"
)

// printer shows requests instead of sending them.
type printer struct{}

func (printer) Export(_ context.Context, request []byte, spans int) (rejected int, err error) {
	var r collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(request, &r); err != nil {
		return 0, err
	}
	for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
		fmt.Println(s.Name, s.Attributes[0].Key, s.Attributes[0].Value.GetStringValue())
	}
	return 0, nil
}

func (printer) Shutdown(context.Context) error { return nil }

// The provider takes the place of the SDK's; in earnest, the exporter is one of packages otlphttp
// and otlpgrpc.
func ExampleNewTracerProvider() {
	provider := lean.NewTracerProvider(
		lean.WithExporter(printer{}),
		lean.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1))),
	)
	_, span := provider.Tracer("shop").Start(context.Background(), "checkout")
	span.SetAttributes(attribute.String("cart", "full"))
	span.End()
	if err := provider.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: checkout cart full
}

// work is what an instrumentation allocates for a request: one piece of memory, the span in it.
type work struct {
	span    lean.Span
	dropped lean.Unrecorded
	bytes   int64
}

// An instrumentation asks first, and makes attributes only for spans that are recorded.
func ExampleTracer_Decide() {
	provider := lean.NewTracerProvider(lean.WithExporter(printer{}))
	tracer, ok := lean.TracerOf(provider, "instrumentation")
	if !ok {
		return // the SDK, or a no-op: use the API
	}
	ctx := context.Background()
	attributes := func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("http.request.method", "GET")}
	}

	w := new(work)
	start := lean.Start{Name: "GET", Kind: trace.SpanKindServer}
	if tracer.UsesAttributes() {
		start.Attributes = attributes()
	}
	d := tracer.Decide(ctx, &start)
	if d.Recording() {
		start.Attributes = attributes()
		ctx = tracer.StartIn(&w.span, ctx, &start, &d)
	} else {
		ctx = tracer.DropIn(&w.dropped, ctx, &d)
	}
	w.bytes++ // the work, with ctx
	trace.SpanFromContext(ctx).End()
	_ = provider.Shutdown(context.Background())
	// Output: GET http.request.method GET
}
