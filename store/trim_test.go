package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// long is a trace of n spans with everything that can be too long.
func long(n int) ptrace.Traces {
	td := ptrace.NewTraces()
	pad := strings.Repeat("x", 100_000)
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop"+pad)
	rs.Resource().Attributes().PutStr("host.name", pad)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("scope" + pad)
	ss.Scope().Attributes().PutStr("s", pad)
	for i := range n {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 9})
		s.SetSpanID(pcommon.SpanID{0: 1, 6: byte(i >> 8), 7: byte(i)})
		s.SetName("op" + pad)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Unix(1000, int64(i))))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(time.Unix(1001, int64(i))))
		s.TraceState().FromRaw("a=" + pad)
		s.Status().SetMessage(pad)
		s.Attributes().PutStr("wanted", "yes")
		s.Attributes().PutStr("key"+pad, pad)
		s.Attributes().PutEmptyBytes("bytes").FromRaw([]byte(pad))
		s.Attributes().PutEmptySlice("list").AppendEmpty().SetStr(pad)
		s.SetDroppedAttributesCount(3)
		for j := range 1500 {
			s.Events().AppendEmpty().SetName(fmt.Sprintf("e%d", j))
		}
		e := s.Links().AppendEmpty()
		e.Attributes().PutStr("l"+pad, pad)
		e.TraceState().FromRaw(pad)
	}
	return td
}

func TestTrim(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Write(t.Context(), long(20)); err != nil {
		t.Fatal(err)
	}
	id := pcommon.TraceID{15: 9}
	wanted := func(key string) bool { return key == "wanted" }
	size := func(td ptrace.Traces) int { return (&ptrace.ProtoMarshaler{}).TracesSize(td) }

	// As it was stored.
	whole, err := s.Find(t.Context(), id)
	if err != nil || whole.Cut.Any() || whole.Traces.SpanCount() != 20 || size(whole.Traces) < 20*700_000 {
		t.Fatalf("%v %+v %d", err, whole.Cut, size(whole.Traces))
	}
	full, err := s.FindPart(t.Context(), id, Part{Keys: wanted, All: true})
	if err != nil || full.Cut.Spans+full.Cut.Short != 0 || full.Cut.Fields != 20*500 || size(full.Traces) > 20*200_000 {
		t.Fatalf("%v %+v %d", err, full.Cut, size(full.Traces))
	}
	rs := full.Traces.ResourceSpans().At(0)
	name, _ := rs.Resource().Attributes().Get("service.name")
	span := rs.ScopeSpans().At(0).Spans().At(0)
	for what, text := range map[string]string{"service": name.Str(), "name": span.Name(), "scope": rs.ScopeSpans().At(0).Scope().Name()} {
		if len(text) != 4096 || !strings.Contains(text, "…#") {
			t.Errorf("%s: %d bytes", what, len(text))
		}
	}
	found, err := s.Services(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != name.Str() {
		t.Errorf("in a list the service has another name: %v", err)
	}
	if r, err := s.Search(t.Context(), Query{Service: name.Str(), Operation: span.Name()}); err != nil || len(r.Traces) != 1 {
		t.Errorf("it is not found by its name: %v", err)
	}
	if span.TraceState().AsRaw() != "" || span.Attributes().Len() != 4 || span.DroppedAttributesCount() != 3 || span.DroppedEventsCount() != 500 || span.Events().Len() != 1000 || span.Links().Len() != 1 {
		t.Errorf("%d attributes, %d dropped, %d events, %d dropped", span.Attributes().Len(), span.DroppedAttributesCount(), span.Events().Len(), span.DroppedEventsCount())
	}
	for key, v := range span.Attributes().All() {
		if len(key) > 256 || len(v.AsString()) > 32<<10 {
			t.Errorf("%.10s: %d bytes, %d", key, len(key), len(v.AsString()))
		}
	}

	bare, err := s.FindPart(t.Context(), id, Part{Keys: wanted, Whole: pcommon.SpanID{0: 1, 7: 4}})
	if err != nil {
		t.Fatal(err)
	}
	for i, span := range bare.Traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		want := 1
		if i == 4 {
			want = 4
		}
		if span.Attributes().Len() != want || span.Events().Len() != (want-1)/3*1000 {
			t.Errorf("span %d has %d attributes, %d events", i, span.Attributes().Len(), span.Events().Len())
		}
	}

	// As much as is allowed: first without what else there is, then without spans.
	var asked, beside int64
	may := int64(0)
	ctx := WithAsk(t.Context(), func(_ context.Context, spans, other int64) (int64, error) {
		asked, beside = spans, other
		return min(may, spans), nil
	})
	for _, may = range []int64{1 << 40, 800_000, 50_000} {
		f, err := s.FindPart(ctx, id, Part{Keys: wanted, All: true})
		if err != nil || asked < 20*700_000 || beside < 20*700_000 {
			t.Fatalf("%v, asked for %d and %d", err, asked, beside)
		}
		n := f.Traces.SpanCount()
		if n+f.Cut.Spans != 20 || n == 0 || may > 1<<30 && f.Cut.Spans+f.Cut.Short > 0 || may == 800_000 && f.Cut.Short == 0 || may < 100_000 && f.Cut.Spans == 0 {
			t.Errorf("may %d: %d spans, %+v", may, n, f.Cut)
		}
	}
	no := errors.New("no")
	ctx = WithAsk(t.Context(), func(context.Context, int64, int64) (int64, error) { return 0, no })
	if _, err := s.Find(ctx, id); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	// A list is a small query, whatever is in it; conditions on attributes are compared in the spans.
	if r, err := s.Search(ctx, Query{}); err != nil || len(r.Traces) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := s.Search(ctx, Query{Attributes: map[string]string{"wanted": "yes"}}); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

// However many services and operations there are, an answer has a bounded number.
func TestAnswersAreBounded(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const n = maxAnswered + 500
	td := ptrace.NewTraces()
	for i := range n {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", fmt.Sprint("s", i))
		sp := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		sp.SetTraceID(pcommon.TraceID{15: 9})
		sp.SetSpanID(pcommon.SpanID{6: byte(i >> 8), 7: byte(i), 1: 1})
		sp.SetName(fmt.Sprint("o", i))
		sp.SetStartTimestamp(1000)
		sp.SetEndTimestamp(2000)
	}
	if err := s.Write(t.Context(), td); err != nil {
		t.Fatal(err)
	}
	services, err := s.Services(t.Context())
	sum := uint64(0)
	for _, x := range services {
		sum += x.Spans
	}
	if err != nil || len(services) != maxAnswered+1 || sum != n || services[0].Name != OtherServices {
		t.Errorf("%d services, %d spans, %v", len(services), sum, err)
	}
	operations, err := s.Operations(t.Context(), "")
	if err != nil || len(operations) != maxAnswered+1 {
		t.Errorf("%d operations, %v", len(operations), err)
	}
	latencies, err := s.Latencies(t.Context(), time.Time{}, time.Time{}, "", true)
	sum = 0
	for _, x := range latencies {
		sum += x.Count
	}
	if err != nil || len(latencies) != maxAnswered+1 || sum != n {
		t.Errorf("%d latencies, %d spans, %v", len(latencies), sum, err)
	}
	r, err := s.Search(t.Context(), Query{})
	if err != nil || len(r.Traces) != 1 || len(r.Traces[0].Services) != MaxServices || r.Traces[0].More != n-MaxServices || r.Traces[0].Spans != n {
		t.Errorf("%+v %v", r.Traces[0].More, err)
	}
}
