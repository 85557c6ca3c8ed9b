package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	jaegermodel "github.com/jaegertracing/jaeger-idl/model/v1"
	"github.com/jaegertracing/jaeger-idl/proto-gen/api_v2"
	"github.com/jaegertracing/jaeger-idl/thrift-gen/jaeger"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-trace/tare/internal/testkit"
)

// Spans in Zipkin's and Jaeger's formats, as their clients send them.
func TestCollectorTakesZipkinAndJaeger(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	zipkin, thriftHTTP, jaegerGRPC := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	collect(t, fmt.Sprintf(`
receivers:
  zipkin: {endpoint: %q}
  jaeger: {protocols: {thrift_http: {endpoint: %q}, grpc: {endpoint: %q}}}
exporters:
  otlp_grpc: {endpoint: %q, tls: {insecure: true}}
service:
  pipelines:
    traces: {receivers: [zipkin, jaeger], exporters: [otlp_grpc]}`, zipkin, thriftHTTP, jaegerGRPC, sink.address))

	const start = 1_700_000_000_000_000 // µs
	post := func(url, kind string, body []byte, want int) {
		t.Helper()
		resp, err := http.Post(url, kind, bytes.NewReader(body)) //nolint:gosec // the test's own
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("%s: %s, want %d", url, resp.Status, want)
		}
	}
	post("http://"+zipkin+"/api/v2/spans", "application/json", fmt.Appendf(nil, `[
		{"traceId":"0000000000000001000000000000000a","id":"0000000000000001","name":"get /","kind":"SERVER","timestamp":%d,"duration":2000,
		 "localEndpoint":{"serviceName":"zipkin-shop"},"tags":{"http.method":"GET"}},
		{"traceId":"0000000000000001000000000000000a","parentId":"0000000000000001","id":"0000000000000002","name":"select","kind":"CLIENT",
		 "timestamp":%d,"duration":1000,"localEndpoint":{"serviceName":"zipkin-shop"},"tags":{"error":"no such table"}}]`, start, start+500),
		http.StatusAccepted)
	post("http://"+zipkin+"/api/v2/spans", "application/json", []byte(`[{"traceId":`), http.StatusBadRequest)

	method := "GET"
	batch := &jaeger.Batch{
		Process: &jaeger.Process{ServiceName: "thrift-shop"},
		Spans: []*jaeger.Span{
			{TraceIdHigh: 1, TraceIdLow: 0xb, SpanId: 1, OperationName: "get /", StartTime: start, Duration: 2000, Tags: []*jaeger.Tag{
				{Key: "span.kind", VType: jaeger.TagType_STRING, VStr: new("server")}, {Key: "http.method", VType: jaeger.TagType_STRING, VStr: &method}}},
			{TraceIdHigh: 1, TraceIdLow: 0xb, SpanId: 2, ParentSpanId: 1, OperationName: "select", StartTime: start + 500, Duration: 1000, Tags: []*jaeger.Tag{
				{Key: "span.kind", VType: jaeger.TagType_STRING, VStr: new("client")}, {Key: "error", VType: jaeger.TagType_BOOL, VBool: new(true)}}},
		},
	}
	buffer := thrift.NewTMemoryBuffer()
	if err := batch.Write(t.Context(), thrift.NewTBinaryProtocolConf(buffer, nil)); err != nil {
		t.Fatal(err)
	}
	post("http://"+thriftHTTP+"/api/traces", "application/vnd.apache.thrift.binary", buffer.Bytes(), http.StatusAccepted)
	post("http://"+thriftHTTP+"/api/traces", "application/vnd.apache.thrift.binary", []byte("garbage"), http.StatusBadRequest)

	conn, err := grpc.NewClient(jaegerGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	shop := &jaegermodel.Process{ServiceName: "grpc-shop"}
	id := jaegermodel.NewTraceID(1, 0xc)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(deadline))
	defer cancel()
	if _, err := api_v2.NewCollectorServiceClient(conn).PostSpans(ctx, &api_v2.PostSpansRequest{Batch: jaegermodel.Batch{Process: shop, Spans: []*jaegermodel.Span{
		{TraceID: id, SpanID: 1, OperationName: "get /", StartTime: time.UnixMicro(start), Duration: 2 * time.Millisecond,
			Tags: []jaegermodel.KeyValue{jaegermodel.String("span.kind", "server"), jaegermodel.String("http.method", "GET")}},
		{TraceID: id, SpanID: 2, OperationName: "select", StartTime: time.UnixMicro(start + 500), Duration: time.Millisecond,
			References: []jaegermodel.SpanRef{jaegermodel.NewChildOfRef(id, 1)},
			Tags:       []jaegermodel.KeyValue{jaegermodel.String("span.kind", "client"), jaegermodel.Bool("error", true)}},
	}}}); err != nil {
		t.Fatal(err)
	}

	testkit.Until(t, time.Minute, "all six spans arrived", func() bool { return sink.count() >= 6 })
	for trace, service := range map[string]string{
		"0000000000000001000000000000000a": "zipkin-shop",
		"0000000000000001000000000000000b": "thrift-shop",
		"0000000000000001000000000000000c": "grpc-shop",
	} {
		root, rootService := sink.span(t, trace, "0000000000000001")
		call, callService := sink.span(t, trace, "0000000000000002")
		if rootService != service || callService != service {
			t.Errorf("services %q and %q, want %q", rootService, callService, service)
		}
		if root.Name() != "get /" || root.Kind() != ptrace.SpanKindServer || !root.ParentSpanID().IsEmpty() {
			t.Errorf("%s: the root is %q, %v, below %v", service, root.Name(), root.Kind(), root.ParentSpanID())
		}
		if m, _ := root.Attributes().Get("http.method"); m.AsString() != "GET" {
			t.Errorf("%s: attributes %v", service, root.Attributes().AsRaw())
		}
		if call.Name() != "select" || call.Kind() != ptrace.SpanKindClient || call.ParentSpanID() != root.SpanID() || call.Status().Code() != ptrace.StatusCodeError {
			t.Errorf("%s: the call is %q, %v, below %v, %v", service, call.Name(), call.Kind(), call.ParentSpanID(), call.Status().Code())
		}
		if call.StartTimestamp() != (start+500)*1000 || call.EndTimestamp() != (start+1500)*1000 {
			t.Errorf("%s: the call lasts from %d to %d", service, call.StartTimestamp(), call.EndTimestamp())
		}
	}
}
