package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

// A request that was too large has its connection held for half a second by net/http
// (closeWriteAndWait), so that the client reads the answer.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func traceID(number uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 8), number) }

// one is a span of a trace; parent 0: a root.
func one(number uint64, id, parent byte) *trace.Span {
	s := &trace.Span{
		TraceId: traceID(number), SpanId: []byte{7: id}, Name: "GET", Kind: trace.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: 1_000_000 + uint64(id), EndTimeUnixNano: 1_000_100 - uint64(id),
		Attributes: []*common.KeyValue{
			text("url.path", "/n/"+strconv.FormatUint(number, 10)),
			{Key: "server.port", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 80}}},
			{Key: "yes", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}},
			{Key: "half", Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 0.5}}},
		},
		Status: &trace.Status{Code: trace.Status_STATUS_CODE_ERROR},
	}
	if parent > 0 {
		s.ParentSpanId = []byte{7: parent}
	}
	return s
}

// chain is a trace of three spans, each of which is the next one's parent.
func chain(number uint64) []*trace.Span {
	return []*trace.Span{one(number, 1, 0), one(number, 2, 1), one(number, 3, 2)}
}

func request(service string, spans ...*trace.Span) *collector.ExportTraceServiceRequest {
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{text("service.name", service)}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: spans}},
	}}}
}

func body(spans ...*trace.Span) []byte {
	b, err := proto.Marshal(request("shop", spans...))
	if err != nil {
		panic(err)
	}
	return b
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func open(t testing.TB, o Options) *Sink {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// keeping is a sink that keeps, in a file without a name.
func keeping(t testing.TB) *Sink {
	s := open(t, Options{Dir: t.TempDir()})
	s.Keep(true)
	return s
}

var poster = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send returns the answer with its body closed.
func send(t testing.TB, s *Sink, b []byte, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Endpoint()+"/v1/traces", bytes.NewReader(b))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := poster.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	return resp
}

func accepted(t testing.TB, s *Sink, b []byte, header ...string) {
	t.Helper()
	require.Equal(t, http.StatusOK, send(t, s, b, header...).StatusCode, "status")
}

// post is send without a test: the error is the client's.
func post(ctx context.Context, s *Sink) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint()+"/v1/traces", bytes.NewReader(body(chain(1)...)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := poster.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
