package jaeger

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
)

func hostile() ptrace.Traces {
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty() // no batch comes of this one
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	rs.Resource().Attributes().PutStr("host.name", "a")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("lib")
	s := ss.Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{15: 0xab})
	s.SetSpanID(pcommon.SpanID{7: 2})
	s.SetParentSpanID(pcommon.SpanID{7: 1})
	s.SetName("\xc3\x28</script>")
	s.SetKind(ptrace.SpanKindServer)
	s.SetStartTimestamp(1_700_000_000_123_456_789)
	s.SetEndTimestamp(1_700_000_000_123_999_999)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage("broken")
	s.TraceState().FromRaw("ot=th:8")
	a := s.Attributes()
	a.PutDouble("nan", math.NaN())
	a.PutDouble("half", 0.5)
	a.PutInt("big", math.MaxInt64)
	a.PutInt("small", 7)
	a.PutBool("yes", true)
	a.PutEmptyBytes("bytes").FromRaw([]byte{0, 255})
	a.PutEmptyMap("map").PutStr("k", "v")
	a.PutBool(semconv.Late, true)
	a.PutInt(semconv.ClockOffset, 5)
	a.PutStr(semconv.TraceState, semconv.StateIncomplete)
	a.PutStr(semconv.TraceReason, "parent_missing,server_missing")
	e := s.Events().AppendEmpty()
	e.SetName("exception")
	e.SetTimestamp(1_700_000_000_123_456_999)
	l := s.Links().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{1})
	l.SetSpanID(pcommon.SpanID{3})
	backwards := ss.Spans().AppendEmpty()
	backwards.SetTraceID(pcommon.TraceID{15: 0xab})
	backwards.SetSpanID(pcommon.SpanID{7: 4})
	backwards.SetStartTimestamp(9000)
	backwards.SetEndTimestamp(1000)
	return td
}

func TestConvert(t *testing.T) {
	got := convert(store.Found{Traces: hostile()})
	if got.TraceID != "00000000000000ab" || len(got.Spans) != 2 || len(got.Processes) != 1 ||
		!slices.Equal(got.Warnings, []string{"the trace is incomplete: parent_missing, server_missing"}) {
		t.Fatalf("got %+v", got)
	}
	s := got.Spans[0]
	if s.TraceID != got.TraceID || s.SpanID != "0000000000000002" || s.Start != 1_700_000_000_123_456 || s.Duration != 543 {
		t.Errorf("got %+v", s)
	}
	if p := got.Processes[s.ProcessID]; p.Service != "shop" || len(p.Tags) != 1 || p.Tags[0] != (keyValue{"host.name", "string", "a"}) {
		t.Errorf("process %+v", p)
	}
	if want := []reference{{"CHILD_OF", "00000000000000ab", "0000000000000001"},
		{"FOLLOWS_FROM", "01000000000000000000000000000000", "0300000000000000"}}; !slices.Equal(s.References, want) {
		t.Errorf("references %+v", s.References)
	}
	tags := map[string]keyValue{}
	for _, kv := range s.Tags {
		tags[kv.Key] = kv
	}
	for _, want := range []keyValue{
		{"nan", "string", "NaN"}, {"half", "float64", 0.5}, {"big", "int64", "9223372036854775807"}, {"small", "int64", int64(7)},
		{"yes", "bool", true}, {"map", "string", `{"k":"v"}`}, {"span.kind", "string", "server"}, {"error", "bool", true},
		{"otel.status_code", "string", "ERROR"}, {"otel.status_description", "string", "broken"},
		{"w3c.tracestate", "string", "ot=th:8"}, {"otel.scope.name", "string", "lib"},
	} {
		if tags[want.Key] != want {
			t.Errorf("tag %+v, want %+v", tags[want.Key], want)
		}
	}
	if len(s.Logs) != 1 || s.Logs[0].Timestamp != 1_700_000_000_123_456 || s.Logs[0].Fields[0] != (keyValue{"event", "string", "exception"}) {
		t.Errorf("logs %+v", s.Logs)
	}
	if want := []string{"the parent span 0000000000000001 is not in the trace", "the span arrived after its trace was emitted",
		"the clock was corrected by 5 ns"}; !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings %q", s.Warnings)
	}
	if b := got.Spans[1]; b.Duration != 0 || !slices.Equal(b.Warnings, []string{"the span ends before it starts"}) || b.References == nil || b.Tags == nil {
		t.Errorf("got %+v", b)
	}
	b, err := json.Marshal(got)
	if err != nil || bytes.Contains(b, []byte("null,\"logs")) || !bytes.Contains(b, []byte(`"key":"bytes","type":"binary","value":"AP8="`)) {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, td := range []ptrace.Traces{hostile(), ptrace.NewTraces()} {
		b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			t.Skip()
		}
		got := convert(store.Found{Traces: td})
		if len(got.Spans) != td.SpanCount() {
			t.Fatalf("%d spans of %d", len(got.Spans), td.SpanCount())
		}
		text, err := json.Marshal(got)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v: %s", err, text)
		}
		for _, s := range got.Spans {
			if _, ok := got.Processes[s.ProcessID]; !ok || strings.Trim(s.SpanID, "0123456789abcdef") != "" {
				t.Fatalf("span %+v", s)
			}
		}
	})
}
