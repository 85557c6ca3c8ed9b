package web_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when the fixture's traces were.
var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// trace makes spans of one trace.
type trace struct {
	td    ptrace.Traces
	id    pcommon.TraceID
	start time.Time
	of    map[string]ptrace.SpanSlice
}

func newTrace(n byte, start time.Time) *trace {
	return &trace{ptrace.NewTraces(), pcommon.TraceID{0: 0xa, 15: n}, start, map[string]ptrace.SpanSlice{}}
}

func (t *trace) span(service, name string, kind ptrace.SpanKind, id, parent byte, from, to time.Duration) ptrace.Span {
	spans, ok := t.of[service]
	if !ok {
		rs := t.td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", service)
		rs.Resource().Attributes().PutStr("host.name", "node-1")
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("tare")
		spans = ss.Spans()
		t.of[service] = spans
	}
	s := spans.AppendEmpty()
	s.SetTraceID(t.id)
	s.SetSpanID(pcommon.SpanID{7: id})
	s.SetParentSpanID(pcommon.SpanID{7: parent})
	s.SetName(name)
	s.SetKind(kind)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(t.start.Add(from)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(t.start.Add(to)))
	return s
}

const (
	ms       = time.Millisecond
	server   = ptrace.SpanKindServer
	client   = ptrace.SpanKindClient
	internal = ptrace.SpanKindInternal
)

// order is a whole trace: web, cart and a redis that is not traced.
func order(n byte, start time.Time) *trace {
	t := newTrace(n, start)
	root := t.span("web", "GET /order/{id}", server, 1, 0, 0, 20*ms)
	root.TraceState().FromRaw("ot=th:8")
	root.Attributes().PutStr(semconv.TraceState, semconv.StateComplete)
	root.Attributes().PutStr(semconv.KeepReason, "share")
	root.Attributes().PutStr("url.path", "/order/7")
	root.Attributes().PutInt("http.response.status_code", 200)
	root.Attributes().PutInt("big", 1<<60+1)
	root.Attributes().PutDouble("ratio", 0.25)
	root.Attributes().PutEmptySlice("list").AppendEmpty().SetInt(1)
	e := root.Events().AppendEmpty()
	e.SetName("received")
	e.SetTimestamp(pcommon.NewTimestampFromTime(start.Add(ms)))
	e.Attributes().PutInt("bytes", 17)
	l := root.Links().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{0xb})
	l.SetSpanID(pcommon.SpanID{0xc})
	call := t.span("web", "GET", client, 2, 1, 2*ms, 12*ms)
	call.Attributes().PutBool(semconv.PeerTraced, true)
	t.span("cart", "GET /cart", server, 3, 2, 3*ms, 11*ms)
	db := t.span("cart", "GET", client, 4, 3, 5*ms, 9*ms)
	db.Attributes().PutStr("db.system.name", "redis")
	db.Attributes().PutStr("server.address", "10.0.0.9")
	db.Attributes().PutInt("server.port", 6379)
	t.span("web", "render", internal, 5, 1, 13*ms, 30*ms) // outlives the answer
	return t
}

// broken is an incomplete trace with an error, a missing parent and a gap.
func broken(n byte, start time.Time) *trace {
	t := newTrace(n, start)
	s := t.span("web", "POST /order", server, 1, 0, 0, 5*ms)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage("out of stock")
	s.Attributes().PutStr(semconv.TraceState, semconv.StateIncomplete)
	s.Attributes().PutStr(semconv.TraceReason, "server_missing,parent_missing")
	s.Attributes().PutStr(semconv.KeepReason, "error")
	s.Attributes().PutStr("error.type", "500")
	c := t.span("web", "POST", client, 2, 1, ms, 4*ms)
	c.Attributes().PutBool(semconv.PeerTraced, true)
	o := t.span("stock", "reserve", server, 9, 8, 7*ms, 9*ms)
	o.Attributes().PutBool(semconv.Late, true)
	o.Attributes().PutInt(semconv.ClockOffset, -1500)
	return t
}

// open is a real store with these traces, in the order given.
func open(t testing.TB, traces ...*trace) *store.Store {
	t.Helper()
	st, err := store.Open(store.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, tr := range traces {
		if err := st.Write(context.Background(), tr.td); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// serve is the handler on a real server.
func serve(t testing.TB, o web.Options) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(web.New(o))
	t.Cleanup(func() {
		s.Client().CloseIdleConnections()
		s.Close()
	})
	return s
}

// shop is the fixture that the golden files are of.
func shop(t testing.TB) *store.Store {
	s := open(t, order(1, noon), order(2, noon.Add(time.Second)), broken(3, noon.Add(2*time.Second)))
	if err := s.WriteLogs(context.Background(), said()); err != nil {
		t.Fatal(err)
	}
	return s
}

// said is log records of the first order.
func said() plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "cart")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("cart/db")
	record := func(span byte, at time.Duration) plog.LogRecord {
		r := sl.LogRecords().AppendEmpty()
		r.SetTraceID(pcommon.TraceID{0: 0xa, 15: 1})
		r.SetSpanID(pcommon.SpanID{7: span})
		r.SetTimestamp(pcommon.NewTimestampFromTime(noon.Add(at)))
		return r
	}
	r := record(4, 6*ms) // came first, is later
	r.SetSeverityText("warning")
	r.SetSeverityNumber(plog.SeverityNumberWarn)
	r.Body().SetStr("slow: <b>GET</b>")
	r.Attributes().PutInt("keys", 1<<60+1)
	r = record(0, 0) // of no span
	r.SetObservedTimestamp(r.Timestamp() - 1)
	r.SetTimestamp(0)
	r.SetSeverityNumber(plog.SeverityNumberError2)
	r.SetEventName("cart.full")
	r.Body().SetEmptyMap().PutStr("key", "value")
	return ld
}
