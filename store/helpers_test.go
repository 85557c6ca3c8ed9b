package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(closing{m})
}

// closing closes, after all tests, what benchmarks share.
type closing struct{ goleak.TestingM }

func (c closing) Run() int {
	defer closeCostStore()
	return c.TestingM.Run()
}

func open(t testing.TB, opt Options) *Store {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func write(t testing.TB, s *Store, td ptrace.Traces) {
	t.Helper()
	if err := s.Write(context.Background(), td); err != nil {
		t.Fatal(err)
	}
}

func traceID(n uint64) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

func spanIDOf(n uint64) (id pcommon.SpanID) {
	binary.LittleEndian.PutUint64(id[:], n)
	return id
}

// hour0 is when the spans of the tests begin, ns.
const hour0 = uint64(1_750_000_000_000_000_000)

// shop makes n traces of 10 spans over 4 services, as a web shop has them:
// about 10 attributes each. The first has the number from; each starts a
// millisecond after the one before.
func shop(from, n int) ptrace.Traces {
	td := ptrace.NewTraces()
	services := [...]string{"gateway", "cart", "stock", "pay"}
	var scopes [len(services)]ptrace.SpanSlice
	for i, name := range services {
		rs := td.ResourceSpans().AppendEmpty()
		a := rs.Resource().Attributes()
		a.PutStr("service.name", name)
		a.PutStr("service.instance.id", "6f7e1a52-5e2f-4a0c-8f5c-1d2f3a4b5c6d")
		a.PutStr("host.name", "node-3.example.com")
		a.PutStr("telemetry.sdk.name", "tare")
		a.PutInt("process.pid", 4711)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("github.com/tare-trace/tare")
		scopes[i] = ss.Spans()
	}
	for i := from; i < from+n; i++ {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		start := hour0 + uint64(i)*1_000_000
		length := 2_000_000 + uint64(r.ExpFloat64()*5_000_000)
		add := func(service int, id, parent uint64, kind ptrace.SpanKind, name string, share uint64) ptrace.Span {
			s := scopes[service].AppendEmpty()
			s.SetTraceID(traceID(uint64(i + 1)))
			s.SetSpanID(spanIDOf(uint64(i)<<8 | id))
			if parent > 0 {
				s.SetParentSpanID(spanIDOf(uint64(i)<<8 | parent))
			}
			s.SetKind(kind)
			s.SetName(name)
			s.SetStartTimestamp(pcommon.Timestamp(start + id*10_000))
			s.SetEndTimestamp(pcommon.Timestamp(start + id*10_000 + length/share))
			s.TraceState().FromRaw("ot=th:c")
			a := s.Attributes()
			a.PutStr("http.request.method", "GET")
			a.PutStr("url.path", fmt.Sprintf("/item/%d", r.IntN(5000)))
			a.PutInt("http.response.status_code", 200)
			a.PutStr("server.address", "10.1.2.3")
			a.PutInt("server.port", 8080)
			a.PutStr("network.protocol.version", "1.1")
			a.PutInt("tare.bytes.received", int64(r.IntN(2000)))
			a.PutInt("tare.bytes.sent", int64(r.IntN(9000)))
			return s
		}
		root := add(0, 1, 0, ptrace.SpanKindServer, "GET /item/{id}", 1)
		root.Attributes().PutStr("tare.trace.state", "complete")
		if r.IntN(50) == 0 {
			root.Status().SetCode(ptrace.StatusCodeError)
		}
		for c := range uint64(3) {
			add(0, 2+2*c, 1, ptrace.SpanKindClient, "GET", 3)
			add(int(c)+1, 3+2*c, 2+2*c, ptrace.SpanKindServer, "GET /"+services[c+1], 4)
		}
		for c := range uint64(3) {
			s := add(int(c)+1, 8+c, 3+2*c, ptrace.SpanKindClient, "GET", 8)
			s.Attributes().PutStr("db.system.name", "redis")
		}
	}
	return td
}
