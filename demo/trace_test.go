package demo

import (
	"encoding/binary"
	"strconv"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/span"
)

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// nginxTrace is a complete trace of the nginx chain, as OTLP.
func nginxTrace(number uint64) []*trace.ResourceSpans {
	id := binary.BigEndian.AppendUint64(make([]byte, 8), number)
	path := "/n/" + strconv.FormatUint(number, 10)
	one := func(service string, kind trace.Span_SpanKind, n byte, start, end uint64) *trace.ResourceSpans {
		s := &trace.Span{
			TraceId: id, SpanId: []byte{7: n}, Name: "GET", Kind: kind,
			StartTimeUnixNano: 1_000_000 + start, EndTimeUnixNano: 1_000_000 + end,
			Attributes: []*common.KeyValue{
				text("url.path", path),
				{Key: "server.port", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 80}}},
				{Key: "yes", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}},
				{Key: "half", Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 0.5}}},
			},
			Status: &trace.Status{Code: trace.Status_STATUS_CODE_ERROR},
		}
		if n > 1 {
			s.ParentSpanId = []byte{7: n - 1}
		}
		return &trace.ResourceSpans{
			Resource:   &resource.Resource{Attributes: []*common.KeyValue{text("service.name", service)}},
			ScopeSpans: []*trace.ScopeSpans{{Spans: []*trace.Span{s}}},
		}
	}
	return []*trace.ResourceSpans{
		one("proxy", trace.Span_SPAN_KIND_SERVER, 1, 0, 100_000),
		one("proxy", trace.Span_SPAN_KIND_CLIENT, 2, 10_000, 90_000),
		one("backend", trace.Span_SPAN_KIND_SERVER, 3, 20_000, 80_000),
	}
}

func otlpBody(spans []*trace.ResourceSpans) []byte {
	b, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		panic(err)
	}
	return b
}

func TestTypical(t *testing.T) {
	s := func(id byte, parent span.ID, took uint64) span.Span {
		return span.Span{TraceID: span.TraceID{id}, Parent: parent, End: took}
	}
	spans := []span.Span{s(1, span.ID{}, 30), s(2, span.ID{}, 10), s(2, span.ID{1}, 500), s(3, span.ID{}, 20), s(4, span.ID{}, 25)}
	id, ok := typical(spans, []span.TraceID{{1}, {2}, {3}}) // 4 is not complete
	if !ok || id != (span.TraceID{3}) {
		t.Errorf("%v %v", id, ok)
	}
	if _, ok := typical(spans, nil); ok {
		t.Error("no complete trace, and yet a typical one")
	}
}
