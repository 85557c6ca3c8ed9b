package demo

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/lab/fidelity"
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

func openSink(t *testing.T) *sink {
	t.Helper()
	s, err := newSink(filepath.Join(t.TempDir(), "spans.bin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var poster = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func post(t *testing.T, s *sink, body []byte, encoding string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.endpoint()+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := poster.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func zip(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSinkKeepsWhatItIsToldTo(t *testing.T) {
	s := openSink(t)
	post(t, s, otlpBody(nginxTrace(1)), "") // only counted
	s.keep(true)
	if code := post(t, s, otlpBody(nginxTrace(2)), ""); code != 200 {
		t.Errorf("status %d", code)
	}
	if code := post(t, s, zip(t, otlpBody(nginxTrace(3))), "gzip"); code != 200 {
		t.Errorf("status %d", code)
	}
	if n := s.requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
	spans, err := s.spans(fidelity.Keys())
	if err != nil {
		t.Fatal(err)
	}
	shape, err := fidelity.ShapeOf("nginx")
	if err != nil {
		t.Fatal(err)
	}
	if r := fidelity.Classify(spans, shape); r.Complete != 2 || r.Traces != 2 {
		t.Errorf("%+v", r)
	}
	if len(spans[0].Attrs) != 1 {
		t.Errorf("attributes that were not asked for: %v", spans[0].Attrs)
	}
	// More can come after a look.
	post(t, s, otlpBody(nginxTrace(4)), "")
	if spans, err = s.spans(nil); err != nil || len(spans) != 9 {
		t.Errorf("%d spans, %v", len(spans), err)
	}
}

func TestSinkDecodesEveryField(t *testing.T) {
	s := openSink(t)
	s.keep(true)
	post(t, s, otlpBody(append(nginxTrace(5), nginxTrace(6)...)), "")
	spans, err := s.trace(span.TraceID{15: 6})
	if err != nil || len(spans) != 3 {
		t.Fatalf("%d spans, %v", len(spans), err)
	}
	got := spans[1]
	if got.ID != (span.ID{7: 2}) || got.Parent != (span.ID{7: 1}) || got.Kind != span.Client || got.Name != "GET" ||
		got.Status != span.Error || got.Start != 1_010_000 || got.End != 1_090_000 || got.Resource.Service != "proxy" {
		t.Errorf("%+v", got)
	}
	for key, want := range map[string]string{"url.path": "/n/6", "server.port": "80", "yes": "true", "half": "0.5"} {
		if a, ok := got.Attr(key); !ok || a.Text() != want {
			t.Errorf("%s = %q", key, a.Text())
		}
	}
	if !spans[0].Parent.IsZero() {
		t.Errorf("root has parent %s", spans[0].Parent)
	}
	if spans[0].Resource != spans[1].Resource {
		t.Error("one service, two resources")
	}
}

func TestSinkReportsWhatItCannotRead(t *testing.T) {
	short := nginxTrace(1)
	short[0].ScopeSpans[0].Spans[0].TraceId = []byte{1}
	parent := nginxTrace(1)
	parent[0].ScopeSpans[0].Spans[0].ParentSpanId = []byte{1}
	for name, c := range map[string]struct {
		body     []byte
		encoding string
	}{
		"not protobuf": {[]byte("hello"), ""},
		"not gzip":     {[]byte("hello"), "gzip"},
		"short id":     {otlpBody(short), ""},
		"short parent": {otlpBody(parent), ""},
	} {
		s := openSink(t)
		s.keep(true)
		post(t, s, c.body, c.encoding)
		if _, err := s.spans(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQuiet(t *testing.T) {
	s := openSink(t)
	begin := time.Now()
	if err := s.quiet(t.Context(), 100*time.Millisecond, time.Minute); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 100*time.Millisecond || d > 10*time.Second {
		t.Errorf("quiet after %v", d)
	}
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

func TestParseMetrics(t *testing.T) {
	m, err := parseMetrics(strings.NewReader(`# HELP tare_roots_total Root decisions.
# TYPE tare_roots_total counter
tare_roots_total{sampled="true"} 5
tare_roots_total{sampled="false"} 495
# TYPE tare_lost_total counter
tare_lost_total{reason="ring_full"} 2
tare_lost_total{reason="queue_full",stage="export"} 3
tare_lost_total{reason="queue_full",stage="build"} 4
# TYPE tare_bpf_program_runs_total counter
tare_bpf_program_runs_total{program="recv"} 10
tare_bpf_program_runs_total{program="send"} 20
tare_bpf_program_runs_total{program="idle"} 0
# TYPE tare_bpf_program_run_seconds_total counter
tare_bpf_program_run_seconds_total{program="recv"} 1e-05
tare_bpf_program_run_seconds_total{program="send"} 4e-06
# TYPE other gauge
other 1
`))
	if err != nil || m.sampled != 5 || m.unsampled != 495 || m.lost["ring_full"] != 2 || m.lost["queue_full"] != 7 {
		t.Errorf("%+v, %v", m, err)
	}
	// The most expensive first.
	want := []Program{{"recv", 10, 1000}, {"send", 20, 200}, {"idle", 0, 0}}
	if len(m.programs) != len(want) {
		t.Fatalf("programs %v", m.programs)
	}
	for i, p := range m.programs {
		if d := p.NsPerRun - want[i].NsPerRun; p.Name != want[i].Name || p.Runs != want[i].Runs || d > 1e-6 || d < -1e-6 {
			t.Errorf("program %d: %+v, want %+v", i, p, want[i])
		}
	}
	for name, in := range map[string]string{"of another program": "up 1\n", "not metrics": "<html>\n"} {
		if _, err := parseMetrics(strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
