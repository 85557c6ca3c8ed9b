package api

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/web/waterfall"
)

// hostile is a trace with values that JSON cannot represent.
func hostile() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "\xff<script>")
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetName("\xc3\x28 \u2028</script>\x00")
	s.SetStartTimestamp(math.MaxUint64 - 5)
	s.SetEndTimestamp(7)
	a := s.Attributes()
	a.PutDouble("nan", math.NaN())
	a.PutDouble("inf", math.Inf(-1))
	a.PutDouble("small", 5e-324)
	a.PutInt("big", math.MaxInt64)
	a.PutEmptyBytes("bytes").FromRaw([]byte{0, 255})
	a.PutEmpty("empty")
	inner := a.PutEmptyMap("map")
	inner.PutDouble("nan", math.NaN())
	inner.PutEmptySlice("list").AppendEmpty().SetDouble(math.Inf(1))
	e := s.Events().AppendEmpty()
	e.SetName("\xfe")
	e.SetTimestamp(1)
	s.Links().AppendEmpty().Attributes().PutBool("b", true)
	return td
}

// back is what of a span is read back.
type back struct {
	ID         string
	Attributes []attribute
}

func write(t *testing.T, td ptrace.Traces, all bool) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	if err := (&analysed{Trace: waterfall.Analyse(td), attributes: all}).WriteJSON(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Fatalf("no JSON: %q", w.Body)
	}
	return w.Body.Bytes()
}

func TestValuesKeepWhatTheyAre(t *testing.T) {
	var got struct{ Spans []back }
	if err := json.Unmarshal(write(t, hostile(), true), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]attribute{
		"nan": {"nan", "double", "NaN"}, "inf": {"inf", "double", "-Inf"}, "small": {"small", "double", "5e-324"},
		"big": {"big", "int", "9223372036854775807"}, "bytes": {"bytes", "bytes", "AP8="}, "empty": {"empty", "string", ""},
		"map": {"map", "map", `{"list":["+Inf"],"nan":"NaN"}`},
	}
	for _, a := range got.Spans[0].Attributes {
		if want[a.Key] != a {
			t.Errorf("got %+v, want %+v", a, want[a.Key])
		}
		delete(want, a.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
	if bytes.Contains(write(t, hostile(), true), []byte("<script>")) {
		t.Error("markup is not escaped")
	}
	if bytes.Contains(write(t, hostile(), false), []byte(`"events"`)) {
		t.Error("attributes=false has events")
	}
}

func TestEventOffsetsMayBeNegative(t *testing.T) {
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetStartTimestamp(1000)
	s.SetEndTimestamp(2000)
	s.Events().AppendEmpty().SetTimestamp(900)
	s.Events().AppendEmpty().SetTimestamp(1500)
	d := (&analysed{Trace: waterfall.Analyse(td), attributes: true}).details(s)
	if d.Events[0].Offset != -100 || d.Events[1].Offset != 500 {
		t.Errorf("got %+v", d.Events)
	}
}

func FuzzTraceJSON(f *testing.F) {
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
		var got struct{ Spans []back }
		if err := json.Unmarshal(write(t, td, true), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Spans) != td.SpanCount() {
			t.Fatalf("%d spans of %d", len(got.Spans), td.SpanCount())
		}
		for i, s := range got.Spans {
			one, err := spanOf(&analysed{Trace: waterfall.Analyse(td)}, mustSpanID(t, s.ID), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(one); err != nil {
				t.Fatalf("span %d: %v", i, err)
			}
		}
	})
}

func mustSpanID(t *testing.T, text string) (id pcommon.SpanID) {
	t.Helper()
	if text == "" { // OTLP's decoder takes spans without an id
		return id
	}
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		t.Fatalf("span id %q", text)
	}
	for i := range id {
		id[i] = byte(n >> (8 * (7 - i)))
	}
	return id
}

func FuzzSearchQuery(f *testing.F) {
	for _, q := range []string{
		"", "service=a&operation=GET+/&kind=server&min=1ms&max=2s&status=error&state=complete&roots=true&limit=5&last=1h",
		"attr=a=b&attr=c=&start=1700000000000&end=2026-01-01T00:00:00Z", "limit=0", "last=-1h", "start=9999999999999999",
		"attr==x", "calls=b&service=a", "x=y", "min=2s&max=1s", "%zz", "last=0s",
	} {
		f.Add(q)
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, raw string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: raw}
		q, err := searchQuery(newParams(r), now)
		if err != nil {
			return
		}
		if q.Limit < 1 || q.Limit > 1000 || q.MinDuration < 0 || q.MaxDuration < 0 ||
			q.MaxDuration > 0 && q.MinDuration > q.MaxDuration || len(q.Conditions) > maxAttributes {
			t.Errorf("%q: taken as %+v", raw, q)
		}
		if !q.Start.IsZero() && !q.End.IsZero() && !q.Start.Before(q.End) {
			t.Errorf("%q: from %v to %v", raw, q.Start, q.End)
		}
	})
}
