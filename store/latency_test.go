package store

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// exact is the quantile by definition: the least value that a share q of the
// weight does not exceed.
func exact(values []uint64, weights map[uint64]float64, q float64) uint64 {
	total := 0.0
	for _, v := range values {
		total += weights[v]
	}
	sum := 0.0
	for _, v := range values {
		if sum += weights[v]; sum >= q*total {
			return v
		}
	}
	return values[len(values)-1]
}

func within(got time.Duration, want uint64) bool {
	return math.Abs(float64(got)-float64(want)) <= 0.02*float64(want)
}

func TestQuantilesAreWithinTwoPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() uint64{
		"exponential": func() uint64 { return uint64(r.ExpFloat64() * 1e6) },
		"all bits":    func() uint64 { return r.Uint64() >> r.IntN(64) },
		"small":       func() uint64 { return uint64(r.IntN(100)) },
		"one":         func() uint64 { return 123_456_789 },
	} {
		var h histogram
		var values []uint64
		weights := map[uint64]float64{}
		for range 2000 {
			v, w := draw(), math.Exp2(float64(r.IntN(8)))
			if weights[v] == 0 {
				values = append(values, v)
			}
			weights[v] += w
			h.add(v, w)
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			got, want := float64(h.quantile(q)), float64(exact(values, weights, q))
			if math.Abs(got-want) > 0.02*want {
				t.Errorf("%s: %g quantile is %g, want %g", name, q, got, want)
			}
		}
		if h.largest != values[len(values)-1] {
			t.Errorf("%s: largest %d", name, h.largest)
		}
	}
}

// Latencies and calls of many traces, against what was written, before and
// after merging.
func TestLatenciesAndMap(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	const n = 400
	for i := range n / 10 {
		write(t, s, shop(i*10, 10))
	}
	from, to := hour0+50_000_000, hour0+300_000_000 // between traces' starts
	type call struct{ from, to string }
	durations := map[string][]uint64{} // of entries
	calls := map[call][]uint64{}
	traces := map[call]map[pcommon.TraceID]bool{} // in which the calls are
	add := func(k call, measured ptrace.Span) {
		if calls[k] = append(calls[k], uint64(measured.EndTimestamp()-measured.StartTimestamp())); traces[k] == nil {
			traces[k] = map[pcommon.TraceID]bool{}
		}
		traces[k][measured.TraceID()] = true
	}
	one := map[uint64]float64{}
	td := shop(0, n)
	targets := map[pcommon.TraceID]string{} // of roots
	service := map[pcommon.SpanID]string{}
	parents := map[pcommon.SpanID]ptrace.Span{}
	for _, rs := range td.ResourceSpans().All() {
		name, _ := rs.Resource().Attributes().Get("service.name")
		for _, x := range rs.ScopeSpans().At(0).Spans().All() {
			service[x.SpanID()], parents[x.SpanID()] = name.AsString(), x
			if path, _ := x.Attributes().Get("url.path"); x.ParentSpanID().IsEmpty() {
				targets[x.TraceID()] = path.Str()
			}
		}
	}
	answered := map[pcommon.SpanID]bool{}
	inside := func(x ptrace.Span) bool {
		return uint64(x.StartTimestamp()) >= from && uint64(x.StartTimestamp()) < to
	}
	length := func(x ptrace.Span) uint64 { return uint64(x.EndTimestamp() - x.StartTimestamp()) }
	for id, x := range parents {
		one[length(x)] = 1
		if x.Kind() == ptrace.SpanKindServer {
			if inside(x) {
				durations[service[id]] = append(durations[service[id]], length(x))
			}
			if p, ok := parents[x.ParentSpanID()]; ok {
				answered[p.SpanID()] = true
				if inside(p) {
					add(call{service[p.SpanID()], service[id]}, p)
				}
			}
		}
	}
	for id, x := range parents {
		if x.Kind() == ptrace.SpanKindClient && !answered[id] && inside(x) {
			add(call{service[id], "redis 10.1.2.3:8080"}, x)
		}
	}
	check := func() {
		t.Helper()
		m, err := s.Map(context.Background(), timeOf(from), timeOf(to))
		if err != nil || len(m.Nodes) != 4 || len(m.Edges) != len(calls) || !m.Start.Equal(timeOf(from)) {
			t.Fatalf("%+v %v, want %d edges", m, err, len(calls))
		}
		for _, l := range m.Nodes {
			d := durations[l.Service]
			slices.Sort(d)
			if l.Count != uint64(len(d)) || l.Weight != float64(4*len(d)) || uint64(l.Max) != d[len(d)-1] || l.Operation != "" ||
				!within(l.P50, exact(d, one, .5)) || !within(l.P95, exact(d, one, .95)) || !within(l.P99, exact(d, one, .99)) {
				t.Errorf("%+v, want %d", l, len(d))
			}
		}
		for _, e := range m.Edges {
			d := calls[call{e.From, e.To}]
			slices.Sort(d)
			if len(d) == 0 || e.Count != uint64(len(d)) || e.Weight != float64(4*len(d)) || e.Traced != (e.To[0] != 'r') ||
				!within(e.P50, exact(d, one, .5)) || !within(e.P95, exact(d, one, .95)) || !within(e.P99, exact(d, one, .99)) {
				t.Errorf("%+v, want %d", e, len(d))
			}
			q := Query{Service: e.From, Calls: e.To, Start: timeOf(from), End: timeOf(to), Limit: n}
			found := searched(t, s, q)
			for _, x := range found.Traces {
				if !traces[call{e.From, e.To}][x.TraceID] {
					t.Errorf("%s calls nobody of %s in trace %v", e.From, e.To, x.TraceID)
				}
				if x.Target != targets[x.TraceID] {
					t.Errorf("trace %v asked for %q, want %q", x.TraceID, x.Target, targets[x.TraceID])
				}
			}
			if want := len(traces[call{e.From, e.To}]); len(found.Traces) != want {
				t.Errorf("%d traces in which %s calls %s, want %d", len(found.Traces), e.From, e.To, want)
			}
			for _, q := range []Query{{Service: e.To, Calls: e.From}, {Service: "nobody", Calls: e.To},
				{Service: e.From, Calls: e.To, Kind: int32(ptrace.SpanKindServer)}, {Calls: "nobody"}} {
				if found := searched(t, s, q); len(found.Traces) > 0 {
					t.Errorf("%+v finds %d traces", q, len(found.Traces))
				}
			}
			if found := searched(t, s, Query{Calls: e.To, MinDuration: time.Duration(d[len(d)-1])}); len(found.Traces) == 0 {
				t.Errorf("no call to %s takes %d ns", e.To, d[len(d)-1])
			}
		}
		l, err := s.Latencies(context.Background(), timeOf(from), timeOf(to), "cart", true)
		if err != nil || len(l) != 2 || l[0].Service != "cart" || l[0].Operation == "" || l[0].Kind == 0 {
			t.Errorf("%+v %v", l, err)
		}
	}
	check()
	for range 3 {
		if merged, err := s.mergeOnce(); err != nil {
			t.Fatal(err)
		} else if !merged {
			break
		}
	}
	check()
}

func searched(t *testing.T, s *Store, q Query) Result {
	t.Helper()
	r, err := s.Search(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// edgesOf writes spans of one trace, as one write or as several, and returns
// the edges.
func edgesOf(t *testing.T, parts ...[]callSpan) []Edge {
	t.Helper()
	s := open(t, Options{NoSync: true, byHand: true})
	for _, part := range parts {
		td := ptrace.NewTraces()
		for _, c := range part {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr("service.name", c.service)
			x := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			x.SetTraceID(traceID(1))
			x.SetSpanID(spanIDOf(c.id))
			if c.parent > 0 {
				x.SetParentSpanID(spanIDOf(c.parent))
			}
			x.SetKind(c.kind)
			x.SetStartTimestamp(pcommon.Timestamp(hour0))
			x.SetEndTimestamp(pcommon.Timestamp(hour0 + c.id)) // says which span it is
			if c.failed {
				x.Status().SetCode(ptrace.StatusCodeError)
			}
			if err := x.Attributes().FromRaw(c.attributes); err != nil {
				t.Fatal(err)
			}
		}
		write(t, s, td)
	}
	if len(parts) > 1 {
		if err := s.merge(s.list()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Map(context.Background(), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Edges
}

type callSpan struct {
	service    string
	id, parent uint64
	kind       ptrace.SpanKind
	failed     bool
	attributes map[string]any
}

func TestEdges(t *testing.T) {
	const (
		client, server     = ptrace.SpanKindClient, ptrace.SpanKindServer
		producer, consumer = ptrace.SpanKindProducer, ptrace.SpanKindConsumer
		internal           = ptrace.SpanKindInternal
	)
	attrs := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		parts [][]callSpan
		want  []Edge // P50 is the id of the span that measures
	}{
		"client and server": {
			[][]callSpan{{{"a", 1, 0, client, true, attrs("server.address", "b.example")}, {"b", 2, 1, server, false, nil}}},
			[]Edge{{From: "a", To: "b", Traced: true, Errors: 1, P50: 1}},
		},
		"the parent is no client": {
			[][]callSpan{{{"a", 1, 0, internal, false, nil}, {"b", 2, 1, server, true, nil}}},
			[]Edge{{From: "a", To: "b", Traced: true, Errors: 1, P50: 2}},
		},
		"within a service": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.address", "a.example")}, {"a", 2, 1, server, false, nil}}},
			nil,
		},
		"parent missing": {
			[][]callSpan{{{"b", 2, 1, server, false, nil}}}, nil,
		},
		"message": {
			[][]callSpan{{{"a", 1, 0, producer, false, attrs("messaging.destination.name", "q")}, {"b", 2, 1, consumer, false, nil}, {"c", 3, 1, consumer, false, nil}}},
			[]Edge{{From: "a", To: "b", Traced: true, P50: 1}, {From: "a", To: "c", Traced: true, P50: 1}},
		},
		"message to nobody": {
			[][]callSpan{{{"a", 1, 0, producer, false, attrs("messaging.destination.name", "q", "server.address", "h", "server.port", 9092)}}},
			[]Edge{{From: "a", To: "q", P50: 1}},
		},
		"peer.service": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("peer.service", "p", "server.address", "h", "db.system.name", "redis")}}},
			[]Edge{{From: "a", To: "p", P50: 1}},
		},
		"database": {
			[][]callSpan{{{"a", 1, 0, client, true, attrs("server.address", "::1", "server.port", "6379", "db.system.name", "redis")}}},
			[]Edge{{From: "a", To: "redis [::1]:6379", Errors: 1, P50: 1}},
		},
		"database without an address": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("db.system", "sqlite")}}},
			[]Edge{{From: "a", To: "sqlite", P50: 1}},
		},
		"address": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.address", "h", "server.port", 80)}}},
			[]Edge{{From: "a", To: "h:80", P50: 1}},
		},
		"a client that names nobody": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.port", 80)}}}, nil,
		},
		"a traced peer whose span is missing": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.address", "h", semconv.PeerTraced, true)}}}, nil,
		},
		"late": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.address", "h", semconv.Late, true)}}}, nil,
		},
		"behind a service that is not linked": {
			[][]callSpan{{{"b", 1, 0, server, true, attrs(semconv.Behind, "gate")}}, {{"gate", 2, 0, server, false, nil}}},
			[]Edge{{From: "gate", To: "b", Traced: true, Unlinked: true, Errors: 1, P50: 1}},
		},
		"some linked, and some not": {
			[][]callSpan{{{"gate", 1, 0, client, false, nil}, {"b", 2, 1, server, false, nil}}, {{"b", 3, 0, server, false, attrs(semconv.Behind, "gate")}}},
			[]Edge{{From: "gate", To: "b", Traced: true, Count: 2, Weight: 2, P50: 1, P95: 3, P99: 3}},
		},
		"behind one, and below a span": {
			[][]callSpan{{{"a", 1, 0, client, false, nil}, {"b", 2, 1, server, false, attrs(semconv.Behind, "gate")}}},
			[]Edge{{From: "a", To: "b", Traced: true, P50: 1}},
		},
		"the two sides share an id": {
			[][]callSpan{{{"a", 1, 0, server, false, nil}, {"a", 2, 1, client, false, attrs("server.address", "h")}, {"b", 2, 1, server, false, nil}, {"b", 3, 2, client, false, attrs("server.address", "c")}, {"c", 3, 2, server, false, nil}}},
			[]Edge{{From: "a", To: "b", Traced: true, P50: 2}, {From: "b", To: "c", Traced: true, P50: 3}},
		},
		"in two writes, merged": {
			[][]callSpan{{{"a", 1, 0, client, false, attrs("server.address", "h")}}, {{"b", 2, 1, server, false, attrs(semconv.Late, true)}}},
			[]Edge{{From: "a", To: "b", Traced: true, P50: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := edgesOf(t, c.parts...)
			for i := range c.want {
				w := &c.want[i]
				if w.Count == 0 {
					w.Count, w.Weight, w.P95, w.P99 = 1, 1, w.P50, w.P50
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A trace of many spans finds parents by a map; it must find the same.
func TestEdgesOfALongTrace(t *testing.T) {
	var spans []callSpan
	for i := range uint64(3 * smallTrace) {
		spans = append(spans,
			callSpan{"a", 1 + 4*i, 0, ptrace.SpanKindClient, false, map[string]any{"server.address": "h"}},
			callSpan{"b", 2 + 4*i, 1 + 4*i, ptrace.SpanKindServer, false, nil},
			callSpan{"b", 3 + 4*i, 0, ptrace.SpanKindServer, false, nil}, // the sides of the last one share an id
			callSpan{"a", 3 + 4*i, 0, ptrace.SpanKindClient, false, map[string]any{"server.address": "h"}})
	}
	got := edgesOf(t, spans)
	if len(got) != 1 || got[0].Count != 6*smallTrace || !got[0].Traced {
		t.Errorf("%+v", got)
	}
}
