package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func text1(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	var m ptrace.JSONMarshaler
	b, err := m.MarshalTraces(td)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func allValues(m pcommon.Map) {
	m.PutStr("string", "a\x00\xffü")
	m.PutStr("empty string", "")
	m.PutEmpty("empty")
	m.PutInt("int", math.MinInt64)
	m.PutDouble("double", -0.1)
	m.PutDouble("infinite", math.Inf(-1))
	m.PutBool("bool", true)
	m.PutBool("false", false)
	m.PutEmptyBytes("bytes").FromRaw([]byte{0, 1, 255})
	m.PutEmptyBytes("no bytes")
	s := m.PutEmptySlice("slice")
	s.AppendEmpty().SetStr("x")
	s.AppendEmpty().SetEmptySlice().AppendEmpty().SetInt(7)
	s.AppendEmpty()
	s.AppendEmpty().SetEmptyMap().PutStr("deep", "est")
	m.PutEmptySlice("empty slice")
	m.PutEmptyMap("map").PutDouble("d", 1e300)
	m.PutEmptyMap("empty map")
	m.PutStr("", "a key without a name")
}

// everything is a trace with every feature of the data model.
func everything() ptrace.Traces {
	td := ptrace.NewTraces()
	for r := range 3 {
		rs := td.ResourceSpans().AppendEmpty()
		if r > 0 {
			allValues(rs.Resource().Attributes())
			rs.Resource().SetDroppedAttributesCount(uint32(r))
			rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.27.0")
		}
		for c := range 2 {
			ss := rs.ScopeSpans().AppendEmpty()
			if c > 0 {
				ss.Scope().SetName("scope")
				ss.Scope().SetVersion("1.2")
				ss.Scope().SetDroppedAttributesCount(3)
				allValues(ss.Scope().Attributes())
				ss.SetSchemaUrl("https://example.com/s")
			}
			for n := range 3 {
				s := ss.Spans().AppendEmpty()
				s.SetTraceID(traceID(1))
				s.SetSpanID(spanIDOf(uint64(1 + r<<8 + c<<4 + n)))
				if n == 0 {
					continue // nothing but its ids
				}
				s.SetParentSpanID(spanIDOf(uint64(r<<8 + c<<4 + n)))
				s.TraceState().FromRaw("ot=th:8,vendor=x")
				s.SetFlags(0x301)
				s.SetName("näme \xff")
				s.SetKind(ptrace.SpanKind(n))
				s.SetStartTimestamp(pcommon.Timestamp(hour0))
				s.SetEndTimestamp(math.MaxUint64)
				allValues(s.Attributes())
				s.SetDroppedAttributesCount(1)
				s.SetDroppedEventsCount(math.MaxUint32)
				s.SetDroppedLinksCount(2)
				s.Status().SetCode(ptrace.StatusCode(n))
				s.Status().SetMessage("it broke")
				e := s.Events().AppendEmpty()
				e.SetName("exception")
				e.SetTimestamp(5)
				e.SetDroppedAttributesCount(9)
				allValues(e.Attributes())
				s.Events().AppendEmpty()
				l := s.Links().AppendEmpty()
				l.SetTraceID(traceID(77))
				l.SetSpanID(spanIDOf(88))
				l.TraceState().FromRaw("a=b")
				l.SetFlags(1)
				l.SetDroppedAttributesCount(4)
				allValues(l.Attributes())
				s.Links().AppendEmpty()
			}
		}
	}
	return td
}

func TestRoundTrip(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	td := everything()
	want := text1(t, td)
	write(t, s, td)
	if got := text1(t, td); got != want {
		t.Errorf("Write has changed what it was given:\n%s", got)
	}
	check := func() {
		t.Helper()
		got, err := s.Trace(context.Background(), traceID(1))
		if err != nil {
			t.Fatal(err)
		}
		if text := text1(t, got); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	check()
	// The same after it was merged with others, and read from disk again.
	for i := range mergeCount {
		write(t, s, shop(100+i, 1))
	}
	for merged := true; merged; {
		var err error
		if merged, err = s.mergeOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.list()); n >= mergeCount {
		t.Fatalf("%d chunks", n)
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.opt)
	check()
}

func TestTraceInParts(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	whole := shop(7, 1)
	var ids []string
	for i := range 4 { // each service on its own, the last first
		td := ptrace.NewTraces()
		whole.ResourceSpans().At(3 - i).CopyTo(td.ResourceSpans().AppendEmpty())
		write(t, s, td)
	}
	// The same service in two writes is one resource.
	again := ptrace.NewTraces()
	whole.ResourceSpans().At(0).CopyTo(again.ResourceSpans().AppendEmpty())
	write(t, s, again)
	td, err := s.Trace(context.Background(), traceID(8))
	if err != nil || td.SpanCount() != 14 || td.ResourceSpans().Len() != 4 {
		t.Fatalf("%d spans of %d resources, %v %v", td.SpanCount(), td.ResourceSpans().Len(), ids, err)
	}
	r, err := s.Search(context.Background(), Query{})
	if err != nil || len(r.Traces) != 1 || r.Traces[0].Spans != 14 || r.Traces[0].Root != "GET /item/{id}" || !strings.HasPrefix(r.Traces[0].Target, "/item/") ||
		r.Traces[0].State != "complete" || r.Traces[0].Weight != 4 || r.Next != "" {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestInvalidSpansAreRefused(t *testing.T) {
	s := open(t, Options{NoSync: true})
	for name, spoil := range map[string]func(ptrace.Span){
		"no trace id": func(x ptrace.Span) { x.SetTraceID(pcommon.TraceID{}) },
		"no span id":  func(x ptrace.Span) { x.SetSpanID(pcommon.SpanID{}) },
	} {
		td := shop(1, 2)
		spoil(td.ResourceSpans().At(1).ScopeSpans().At(0).Spans().At(1))
		err := s.Write(context.Background(), td)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "of cart has no trace id or no span id") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st := s.Stats(); st.Refused != 40 || st.Spans != 0 || st.Written != 0 {
		t.Errorf("%+v", st)
	}
	for _, q := range []Query{{Limit: -1}, {Limit: 1001}, {After: "?"}, {After: "AAAA"}} {
		if _, err := s.Search(context.Background(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := s.Trace(context.Background(), traceID(2)); !errors.Is(err, ErrNotFound) {
		t.Errorf("of the write that was refused: %v", err)
	}
}

func TestNothing(t *testing.T) {
	s := open(t, Options{NoSync: true})
	ctx := context.Background()
	empty := ptrace.NewTraces()
	empty.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	write(t, s, ptrace.NewTraces())
	write(t, s, empty)
	r, err := s.Search(ctx, Query{Service: "x"})
	if err != nil || len(r.Traces) != 0 || r.Next != "" {
		t.Error(r, err)
	}
	if l, err := s.Latencies(ctx, time.Time{}, time.Time{}, "", true); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
	if m, err := s.Map(ctx, time.Time{}, time.Time{}); err != nil || len(m.Nodes)+len(m.Edges) != 0 {
		t.Error(m, err)
	}
	if l, err := s.Services(ctx); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
	if st := s.Stats(); st.Spans != 0 || !st.Oldest.IsZero() || st.Version != version {
		t.Errorf("%+v", st)
	}
}

// Ten megabytes in an attribute, a hundred thousand spans in a trace.
func TestGiants(t *testing.T) {
	s := open(t, Options{NoSync: true})
	ctx := context.Background()
	td := shop(1, 1)
	giant := strings.Repeat("0123456789abcdef", 10<<20/16)
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutStr("giant", giant)
	write(t, s, td)
	got, err := s.Trace(ctx, traceID(2))
	if err != nil || text1(t, got) != text1(t, td) {
		t.Error("a giant attribute does not come back", err)
	}
	r, err := s.Search(ctx, Query{Attributes: map[string]string{"giant": giant}})
	if err != nil || len(r.Traces) != 1 {
		t.Error(len(r.Traces), err)
	}

	long := ptrace.NewTraces()
	spans := long.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	const n = 100_000
	for i := range uint64(n) {
		x := spans.AppendEmpty()
		x.SetTraceID(traceID(9))
		x.SetSpanID(spanIDOf(i + 1))
		x.SetName(fmt.Sprint(i)) // as many operations
		if i > 0 {
			x.SetParentSpanID(spanIDOf(i))
		}
		x.SetStartTimestamp(pcommon.Timestamp(hour0 + i))
		x.SetEndTimestamp(pcommon.Timestamp(hour0 + 3*n - i))
		x.Attributes().PutInt("i", int64(i))
	}
	write(t, s, long)
	got, err = s.Trace(ctx, traceID(9))
	if err != nil || text1(t, got) != text1(t, long) {
		t.Error("a long trace does not come back", err)
	}
	r, err = s.Search(ctx, Query{Attributes: map[string]string{"i": "99999"}, Operation: "99999"})
	if err != nil || len(r.Traces) != 1 || r.Traces[0].Spans != n || r.Traces[0].Root != "0" || r.Traces[0].Duration != 3*n {
		t.Errorf("%+v %v", r, err)
	}
}
