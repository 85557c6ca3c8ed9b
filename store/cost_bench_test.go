package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// What docs/collector.md says of the store is measured here, on one core:
//
//	go test ./store -run '^$' -bench Cost -benchtime 1x -count 10 -cpu 1
//
// TARE_STORE_SPANS is how many spans are searched.

const (
	costTrace  = 9                // spans of a trace: a request and four calls
	costTraces = 8192 / costTrace // of a write: a collector's batch, in whole traces
	costEvery  = 500 * time.Microsecond
	costNewest = 1_000_000 // spans that latencies and calls are computed of
)

// costService is one of the services, as the agent describes it.
type costService struct {
	name, address string
	routes        []string
}

// costShop is a gateway, and what it calls.
var costShop = []costService{
	{"gateway", "10.0.0.10", []string{"/product", "/cart", "/checkout", "/home", "/health"}},
	{"catalog", "10.0.0.11", []string{"/item", "/search"}},
	{"cart", "10.0.0.12", []string{"/add", "/list", "/clear"}},
	{"stock", "10.0.0.13", []string{"/reserve", "/level"}},
	{"pay", "10.0.0.14", []string{"/charge", "/refund"}},
}

// costBatch makes n traces, the first of which has the number from, with the
// attributes that the agent gives to HTTP, stream offsets included: ports,
// offsets and sizes are different in almost every span, so that what is
// computed of attributes costs what it costs in earnest.
func costBatch(from, n int) ptrace.Traces {
	td := ptrace.NewTraces()
	scopes := make([]ptrace.SpanSlice, len(costShop))
	for i, s := range costShop {
		rs := td.ResourceSpans().AppendEmpty()
		a := rs.Resource().Attributes()
		a.PutStr("service.name", s.name)
		a.PutStr("host.name", "node-"+strconv.Itoa(i%3)+".example.com")
		a.PutStr("container.id", fmt.Sprintf("%064x", i+1))
		a.PutStr("process.executable.name", s.name)
		a.PutStr("process.executable.path", "/usr/local/bin/"+s.name)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("github.com/tare-trace/tare")
		scopes[i] = ss.Spans()
		scopes[i].EnsureCapacity(costTrace * n)
	}
	for i := from; i < from+n; i++ {
		costRequest(scopes, i)
	}
	return td
}

// costTime is when the trace starts, ns.
func costTime(trace int) uint64 { return hour0 + uint64(trace)*uint64(costEvery) }

func costRequest(scopes []ptrace.SpanSlice, i int) {
	r := rand.New(rand.NewPCG(uint64(i), 2))
	id, at := traceID(uint64(i)+1), costTime(i)
	length := 1_000_000 + uint64(r.ExpFloat64()*4_000_000)
	failed := r.IntN(200) == 0
	spanOf := func(service int, n, parent uint64, start, length uint64) ptrace.Span {
		s := scopes[service].AppendEmpty()
		s.SetTraceID(id)
		s.SetSpanID(spanIDOf(uint64(i)*costTrace + n))
		if parent > 0 {
			s.SetParentSpanID(spanIDOf(uint64(i)*costTrace + parent))
		}
		s.TraceState().FromRaw("ot=th:c")
		s.SetStartTimestamp(pcommon.Timestamp(at + start))
		s.SetEndTimestamp(pcommon.Timestamp(at + start + length))
		return s
	}
	costHTTP(spanOf(0, 1, 0, 0, length), r, 0, true, failed, "")
	for c := range uint64(4) {
		service := int(c) + 1
		start := length / 5 * c
		client := spanOf(0, 2+2*c, 1, start, length/6)
		path := costHTTP(client, r, service, false, failed && c == 3, "")
		costHTTP(spanOf(service, 3+2*c, 2+2*c, start+50_000, length/8), r, service, true, failed && c == 3, path)
	}
}

// costHTTP gives the span what the agent says of HTTP, and returns the path.
func costHTTP(s ptrace.Span, r *rand.Rand, service int, server, failed bool, path string) string {
	callee := &costShop[service]
	if path == "" {
		path = callee.routes[r.IntN(len(callee.routes))] + "/" + strconv.Itoa(r.IntN(20_000))
	}
	peer := callee.address
	port := int64(8080)
	s.SetName("GET")
	a := s.Attributes()
	a.EnsureCapacity(18)
	a.PutStr("http.request.method", "GET")
	a.PutStr("url.path", path)
	a.PutStr("network.protocol.version", "1.1")
	if server {
		s.SetKind(ptrace.SpanKindServer)
		a.PutStr("url.scheme", "http")
		peer, port = "10.0.0.10", int64(32768+r.IntN(28_000))
	} else {
		s.SetKind(ptrace.SpanKindClient)
		a.PutStr("url.full", "http://"+callee.address+":8080"+path)
	}
	status := int64(200)
	if failed {
		status = 503
		s.Status().SetCode(ptrace.StatusCodeError)
		a.PutStr("error.type", "503")
	}
	a.PutInt("http.response.status_code", status)
	a.PutStr("server.address", callee.address)
	a.PutInt("server.port", 8080)
	a.PutStr("network.peer.address", peer)
	a.PutInt("network.peer.port", port)
	a.PutInt(semconv.BytesReceived, int64(r.IntN(2000)))
	a.PutInt(semconv.BytesSent, int64(r.IntN(9000)))
	a.PutStr("network.local.address", callee.address)
	a.PutInt("network.local.port", int64(32768+r.IntN(28_000)))
	a.PutInt(semconv.StreamOffset, r.Int64N(10_000_000))
	switch {
	case !server:
		a.PutBool(semconv.PeerTraced, true)
	case service == 0:
		a.PutInt(semconv.Calls, 4)
		a.PutStr(semconv.TraceState, semconv.StateComplete)
	default:
		a.PutInt(semconv.Calls, 0)
	}
	return path
}

// costStore is the store that is searched. It is built once in a process,
// because ten million spans take a while.
var costStore struct {
	sync.Mutex
	*Store
	dir    string
	traces int
}

func costSearched(b *testing.B) (s *Store, traces int) {
	b.Helper()
	c := &costStore
	c.Lock()
	defer c.Unlock()
	if c.Store != nil {
		return c.Store, c.traces
	}
	spans := 1_000_000
	if text := os.Getenv("TARE_STORE_SPANS"); text != "" {
		var err error
		if spans, err = strconv.Atoi(text); err != nil || spans < costTrace {
			b.Fatalf("TARE_STORE_SPANS=%q: it must be a number, at least %d", text, costTrace)
		}
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "tare-store-"); err != nil {
		b.Fatal(err)
	}
	if c.Store, err = Open(Options{Dir: c.dir, NoSync: true}); err != nil {
		b.Fatal(err)
	}
	c.traces = (spans + costTrace - 1) / costTrace
	for i := 0; i < c.traces; i += costTraces {
		if err := c.Write(context.Background(), costBatch(i, min(costTraces, c.traces-i))); err != nil {
			b.Fatal(err)
		}
	}
	return c.Store, c.traces
}

// closeCostStore is called by TestMain.
func closeCostStore() {
	c := &costStore
	if c.Store != nil {
		_ = c.Close()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// BenchmarkCost measures what the store costs: sec/op of reading is of one
// call, whatever b.N.
func BenchmarkCost(b *testing.B) {
	b.Run("Write", costWrite)
	b.Run("TraceByID", costTraceByID)
	b.Run("Search", func(b *testing.B) {
		b.Run("worst", costSearchWorst)
		b.Run("failed", func(b *testing.B) {
			s, _ := costSearched(b)
			costMedian(b, 9, func() { costFind(b, s, Query{Service: "pay", Status: Failed}, defaultLimit) })
		})
	})
	b.Run("Overview", costOverview)
	b.Run("Latencies", func(b *testing.B) {
		s, from, to, spans := costRange(b)
		costMedian(b, 3, func() {
			l, err := s.Latencies(context.Background(), from, to, "", true)
			got := uint64(0)
			for _, x := range l {
				got += x.Count
			}
			if err != nil || len(l) != 6 || got < spans || got > spans+1000 {
				b.Fatalf("%d spans of %d: %+v %v", got, spans, l, err)
			}
		})
	})
	b.Run("Map", func(b *testing.B) {
		s, from, to, spans := costRange(b)
		costMedian(b, 3, func() {
			m, err := s.Map(context.Background(), from, to)
			if err != nil || len(m.Nodes) != 5 || len(m.Edges) != 4 || m.Edges[0].Count < spans/costTrace {
				b.Fatalf("%+v %v", m, err)
			}
		})
	})
}

// costWrite writes half a million spans, and what stands in memory at the end:
// so nothing of the engine's work is left for later but compactions.
func costWrite(b *testing.B) {
	const distinct, rounds = 8, 8
	batches := make([]ptrace.Traces, distinct)
	for i := range batches {
		batches[i] = costBatch(i*costTraces, costTraces)
	}
	var cpu time.Duration
	var spans, bytes uint64
	for b.Loop() {
		b.StopTimer()
		s, err := Open(Options{Dir: b.TempDir(), NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		before := processCPU()
		for n := range distinct * rounds {
			if err := s.Write(context.Background(), batches[n%distinct]); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.db.Flush(); err != nil {
			b.Fatal(err)
		}
		cpu += processCPU() - before
		b.StopTimer()
		spans += s.Stats().Written
		bytes += s.tables()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(spans)/cpu.Seconds(), "spans/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(spans), "cpu-ns/span")
	b.ReportMetric(float64(bytes)/float64(spans), "B/span")
}

// tables is the size of what is stored, without logs.
func (s *Store) tables() uint64 {
	total := s.db.Metrics().Total()
	return uint64(max(total.TablesSize, 0))
}

func costTraceByID(b *testing.B) {
	s, traces := costSearched(b)
	r := rand.New(rand.NewPCG(1, 4))
	costMedian(b, 1000, func() {
		if td, err := s.Trace(context.Background(), traceID(uint64(1+r.IntN(traces)))); err != nil || td.SpanCount() != costTrace {
			b.Fatal(td.SpanCount(), err)
		}
	})
}

// costSearchWorst is of the slowest kind of search: those that find nothing, or
// so little that everything must be looked at.
func costSearchWorst(b *testing.B) {
	s, traces := costSearched(b)
	kinds := map[string]Query{
		"no such attribute": {Attributes: map[string]string{"url.path": "/item/none"}},
		"no such number":    {Attributes: map[string]string{semconv.StreamOffset: "-1"}},
		"no such operation": {Operation: "PURGE"},
		"nothing so long":   {Service: "gateway", MinDuration: time.Hour},
		// Every span's duration is looked at, and none is such.
		"nothing between": {Kind: int32(ptrace.SpanKindServer), MinDuration: 10 * time.Millisecond, MaxDuration: 10*time.Millisecond + 2},
		"no such failure": {Service: "gateway", Status: Failed, MaxDuration: time.Microsecond},
		"no such state":   {State: semconv.StateIncomplete},
		"the oldest":      {Service: "stock", End: timeOf(costTime(0) + 1)},
		"every failure":   {Service: "gateway", Status: Failed, Limit: maxLimit},
	}
	worst, slowest := "", time.Duration(0)
	for b.Loop() {
		for name, q := range kinds {
			found := 0
			if name == "every failure" {
				found = min(maxLimit, traces/1000)
			}
			d := costTimes(3, func() { costFind(b, s, q, found) })[1]
			if d > slowest {
				worst, slowest = name, d
			}
			b.Log(name, d)
		}
	}
	b.Log("the slowest:", worst)
	b.ReportMetric(float64(slowest.Nanoseconds()), "ns/op")
}

// costOverview is of the kinds of search that look at everything in range: how many
// traces there are, and which are the longest.
func costOverview(b *testing.B) {
	s, traces := costSearched(b)
	kinds := map[string]Query{
		"everything":            {},
		"half of the time":      {Start: timeOf(costTime(traces / 2))},
		"a service":             {Service: "stock", Kind: int32(ptrace.SpanKindServer)},
		"failures":              {Status: Failed},
		"durations":             {MinDuration: 10 * time.Millisecond},
		"the longest":           {Sort: ByDuration},
		"the largest, of stock": {Service: "stock", Sort: BySpans},
	}
	worst, slowest := "", time.Duration(0)
	for b.Loop() {
		for name, q := range kinds {
			d := costTimes(3, func() {
				if q.Sort != ByTime {
					costFind(b, s, q, 1)
				} else if o, err := s.Overview(context.Background(), q, 60); err != nil || o.Traces == 0 || o.Truncated {
					b.Fatalf("%+v: %d traces, %v", q, o.Traces, err)
				}
			})[1]
			if d > slowest {
				worst, slowest = name, d
			}
			b.Log(name, d)
		}
	}
	b.Log("the slowest:", worst)
	b.ReportMetric(float64(slowest.Nanoseconds()), "ns/op")
}

// costFind searches, and wants a number of traces: 0 is none, at most one.
func costFind(b *testing.B, s *Store, q Query, least int) {
	r, err := s.Search(context.Background(), q)
	if err != nil || r.Truncated || len(r.Traces) < least || least == 0 && len(r.Traces) > 1 {
		b.Fatalf("%+v: %d traces, truncated: %v, %v", q, len(r.Traces), r.Truncated, err)
	}
}

// costRange is when the newest spans started, and how many they are at least:
// some of the traces before had not ended.
func costRange(b *testing.B) (s *Store, from, to time.Time, spans uint64) {
	s, traces := costSearched(b)
	n := min(traces, costNewest/costTrace)
	return s, timeOf(costTime(traces - n)), timeOf(costTime(traces) + uint64(time.Minute)), uint64(n * costTrace)
}

// costTimes is how long n calls took, the shortest first.
func costTimes(n int, f func()) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		f()
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times
}

// costMedian reports the median of n calls as the time of an operation.
func costMedian(b *testing.B, n int, f func()) {
	f() // what is read for the first time is not what is asked about
	var times []time.Duration
	for b.Loop() {
		times = append(times, costTimes(n, f)...)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "ns/op")
}
