package bound

import (
	"unsafe"

	"github.com/jaegertracing/jaeger-idl/model/v1"
	zipkin "github.com/openzipkin/zipkin-go/model"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The messages that receivers decode.
var (
	tracesShape, metricsShape, logsShape = otlp()

	jaegerShape = jaeger()
	zipkinShape = zipkinV2()
)

func otlp() (t, m, l *shape) {
	known := map[protoreflect.FullName]*shape{}
	of := func(x protoreflect.ProtoMessage) *shape { return shapeOf(x.ProtoReflect().Descriptor(), known) }
	t, m, l = of(&traces.ExportTraceServiceRequest{}), of(&metrics.ExportMetricsServiceRequest{}), of(&logs.ExportLogsServiceRequest{})
	// pdata still reads the scopes of OTLP before 0.15 as scopes, in their old field.
	const instrumentationLibraries = 1000
	for _, request := range []*shape{t, m, l} {
		resource := request.fields[1].message
		resource.fields.set(instrumentationLibraries, resource.fields[2])
	}
	return t, m, l
}

func message(size uintptr, messages map[protowire.Number]*shape) *shape {
	s := &shape{size: int64(size)} //nolint:gosec // the size of a struct
	for n, f := range messages {
		s.fields.set(n, field{message: f})
	}
	return s
}

// jaeger is the request of jaeger.api_v2.CollectorService.PostSpans.
func jaeger() *shape {
	tag := message(unsafe.Sizeof(model.KeyValue{}), nil)
	log := message(unsafe.Sizeof(model.Log{}), map[protowire.Number]*shape{2: tag})
	process := message(unsafe.Sizeof(model.Process{}), map[protowire.Number]*shape{2: tag})
	span := message(unsafe.Sizeof(model.Span{}), map[protowire.Number]*shape{
		4: message(unsafe.Sizeof(model.SpanRef{}), nil), 8: tag, 9: log, 10: process,
	})
	span.fields.set(12, list(protoreflect.StringKind)) // warnings
	batch := message(unsafe.Sizeof(model.Batch{}), map[protowire.Number]*shape{1: span, 2: process})
	return message(unsafe.Sizeof(model.Batch{}), map[protowire.Number]*shape{1: batch})
}

// zipkinV2 is zipkin.proto3.ListOfSpans, which is decoded by way of zipkin-go's model.
func zipkinV2() *shape {
	endpoint := message(unsafe.Sizeof(zipkin.Endpoint{})+foreign/2, nil)
	span := message(unsafe.Sizeof(zipkin.SpanModel{})+foreign, map[protowire.Number]*shape{
		8: endpoint, 9: endpoint, 10: message(unsafe.Sizeof(zipkin.Annotation{})+foreign/4, nil), 11: message(foreign/4, nil),
	})
	return message(0, map[protowire.Number]*shape{1: span})
}
