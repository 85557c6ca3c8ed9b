package otlptest

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// ClearEnvironment unsets every OTEL_ variable and every proxy's, so that a
// test meets only what it sets.
func ClearEnvironment() {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			_ = os.Unsetenv(name)
		}
	}
}

// ResourceSpans returns so many spans of an HTTP server, each about 340 bytes
// of protobuf: ids and times differ, names and keys repeat, as in real batches.
func ResourceSpans(spans int) []*tracepb.ResourceSpans {
	scope := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: "example.com/server", Version: "1.2.3"}}
	const start = 1_700_000_000_000_000_000
	for i := range spans {
		n := uint64(i+1) * 0x9e3779b97f4a7c15
		scope.Spans = append(scope.Spans, &tracepb.Span{
			TraceId:           binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n), ^n),
			SpanId:            binary.BigEndian.AppendUint64(nil, n^0x5555),
			Name:              "GET /users/{id}",
			Kind:              tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: start + n%1e9,
			EndTimeUnixNano:   start + n%1e9 + n%1e7,
			Attributes: []*commonpb.KeyValue{
				text("http.request.method", "GET"), text("url.path", fmt.Sprint("/users/", n%100_000)),
				text("http.route", "/users/{id}"), text("server.address", "users.example.com"),
				text("client.address", fmt.Sprint("10.0.", n%256, ".", n>>8%256)),
				text("user_agent.original", "Go-http-client/1.1"), text("network.protocol.version", "1.1"),
				{Key: "http.response.status_code", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 200}}},
			},
		})
	}
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "test")}},
		ScopeSpans: []*tracepb.ScopeSpans{scope},
	}}
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// Request returns [ResourceSpans] as an encoded ExportTraceServiceRequest.
func Request(t testing.TB, spans int) []byte {
	t.Helper()
	data, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: ResourceSpans(spans)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Spans counts those of a request.
func Spans(request *coltracepb.ExportTraceServiceRequest) (n int) {
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			n += len(scope.GetSpans())
		}
	}
	return n
}
