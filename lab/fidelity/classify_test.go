package fidelity

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/workloads"
)

// run builds spans as a faultless tracer would, for tests to spoil.
type run struct{ spans []span.Span }

func (r *run) trace(t *testing.T, chain string, number uint64) *run {
	t.Helper()
	truth, err := workloads.TruthOf(chain)
	require.NoError(t, err)
	var id span.TraceID
	binary.BigEndian.PutUint64(id[:], number+1)
	r.add(truth(number), id, span.ID{}, number)
	return r
}

func (r *run) add(s Shape, id span.TraceID, parent span.ID, number uint64) {
	sp := span.Span{TraceID: id, Parent: parent, Kind: s.Kind, Resource: &span.Resource{Service: s.Service}}
	binary.BigEndian.PutUint64(sp.ID[:], uint64(len(r.spans)+1))
	text := strconv.FormatUint(number, 10)
	switch {
	case strings.HasPrefix(s.Prefix, "hotel."):
		sp.Attrs = []span.Attr{span.String("rpc.method", s.Prefix), span.String("rpc.request.metadata.x-request-id", text)}
	case s.Prefix[0] == '/':
		sp.Attrs = []span.Attr{span.Int("x", 1), span.String("url.path", s.Prefix+text)}
	default:
		sp.Attrs = []span.Attr{span.Int("x", 1), span.String("db.query.text", s.Prefix+text)}
	}
	r.spans = append(r.spans, sp)
	for _, c := range s.Children {
		r.add(c, id, sp.ID, number)
	}
}

// The order of the shop's spans, depth first.
const (
	proxyServer = iota
	proxyClient
	shopServer
	redisClient
	redisServer
	memcachedClient
	memcachedServer
	stockClient
	stockServer
)

func (r *run) drop(i int) *run {
	r.spans = append(r.spans[:i:i], r.spans[i+1:]...)
	return r
}

func (r *run) change(i int, f func(*span.Span)) *run {
	f(&r.spans[i])
	return r
}

func unnamed(s *span.Span)  { s.Attrs = nil }
func unlinked(s *span.Span) { s.Parent = span.ID{} }
func lost(s *span.Span)     { s.Parent = span.ID{0xff} }

func says(key, value string) func(*span.Span) {
	return func(s *span.Span) { s.Attrs = append(s.Attrs, span.String(key, value)) }
}

func numbered(text string) func(*span.Span) {
	return func(s *span.Span) { s.Attrs[1].Str = text }
}

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		chain string
		run   func(*run) *run
		want  Report // of one trace of number 17, then spoiled
	}{
		"nginx":   {chain: "nginx", want: Report{Traces: 1, Complete: 1}},
		"shop":    {chain: "shop", want: Report{Traces: 1, Complete: 1}},
		"nothing": {chain: "nginx", run: func(r *run) *run { r.spans = nil; return r }},

		"missing leaf": {chain: "shop", run: func(r *run) *run { return r.drop(redisServer) },
			want: Report{Traces: 1, Incomplete: map[string]int{"missing redis server GET item:": 1}}},
		"missing root": {chain: "nginx", run: func(r *run) *run { return r.drop(0) },
			want: Report{Traces: 1, Orphaned: 1, Incomplete: map[string]int{"missing proxy server /n/": 1}}},
		"missing middle": {chain: "shop", run: func(r *run) *run { return r.drop(redisClient) },
			want: Report{Traces: 1, Orphaned: 1, Incomplete: map[string]int{"missing shop client GET item:": 1}}},
		"parent never came": {chain: "shop", run: func(r *run) *run { return r.change(stockServer, lost) },
			want: Report{Traces: 1, Orphaned: 1, Incomplete: map[string]int{"orphaned stock server /stock/": 1}}},
		"unnamed": {chain: "shop", run: func(r *run) *run { return r.change(memcachedServer, unnamed) },
			want: Report{Traces: 1, Incomplete: map[string]int{"unnamed memcached server get item:": 1}}},
		"unnamed client": {chain: "shop", run: func(r *run) *run { return r.change(memcachedClient, unnamed) },
			want: Report{Traces: 1, Incomplete: map[string]int{"unnamed shop client get item:": 1}}},
		"name without a number": {chain: "shop", run: func(r *run) *run { return r.change(shopServer, numbered("/item/")) },
			want: Report{Traces: 1, Incomplete: map[string]int{"unnamed shop server /item/": 1}}},
		"another root": {chain: "shop", run: func(r *run) *run { return r.change(stockClient, unlinked) },
			want: Report{Traces: 1, Incomplete: map[string]int{"unlinked shop client /stock/": 1}}},
		"below another": {chain: "shop", run: func(r *run) *run {
			return r.change(stockClient, func(s *span.Span) { s.Parent = r.spans[redisClient].ID })
		},
			want: Report{Traces: 1, Incomplete: map[string]int{"misplaced shop client /stock/": 1}}},
		"its own parent": {chain: "nginx", run: func(r *run) *run {
			return r.change(2, func(s *span.Span) { s.Parent = s.ID })
		},
			want: Report{Traces: 1, Orphaned: 1, Incomplete: map[string]int{"orphaned backend server /n/": 1}}},
		"each other's parent": {chain: "nginx", run: func(r *run) *run {
			return r.change(1, func(s *span.Span) { s.Parent = r.spans[2].ID })
		},
			want: Report{Traces: 1, Incomplete: map[string]int{"misplaced proxy client /n/": 1}}},
		"the same span twice": {chain: "nginx", run: func(r *run) *run { r.spans = append(r.spans, r.spans[2]); return r },
			want: Report{Traces: 1, Incomplete: map[string]int{"duplicated backend server /n/": 1}}},
		"two calls": {chain: "shop", run: func(r *run) *run {
			again := r.spans[redisClient]
			again.ID = span.ID{9}
			r.spans = append(r.spans, again)
			return r
		},
			want: Report{Traces: 1, Incomplete: map[string]int{"duplicated shop client GET item:": 1}}},
		"one too many": {chain: "nginx", run: func(r *run) *run {
			r.spans = append(r.spans, span.Span{TraceID: r.spans[0].TraceID, ID: span.ID{9}, Parent: r.spans[2].ID, Kind: span.Client})
			return r
		},
			want: Report{Traces: 1, Incomplete: map[string]int{"unexpected (no service) client span": 1}}},
		"orphan beside a whole tree": {chain: "nginx", run: func(r *run) *run {
			stray := r.spans[2]
			stray.ID, stray.Parent = span.ID{9}, span.ID{8}
			r.spans = append(r.spans, stray)
			return r
		},
			want: Report{Traces: 1, Orphaned: 1, Incomplete: map[string]int{"orphaned span": 1}}},
		"wrong service": {chain: "nginx", run: func(r *run) *run {
			return r.change(2, func(s *span.Span) { s.Resource = &span.Resource{Service: "proxy"} })
		},
			want: Report{Traces: 1, Incomplete: map[string]int{"missing backend server /n/": 1}}},
		"wrong key": {chain: "shop", run: func(r *run) *run { return r.change(redisServer, numbered("SET item:17")) },
			want: Report{Traces: 1, Incomplete: map[string]int{"missing redis server GET item:": 1}}},

		"two numbers": {chain: "shop", run: func(r *run) *run { return r.change(redisServer, numbered("GET item:18")) },
			want: Report{Traces: 1, Wrong: 1}},
		// Wrong even where it is also incomplete: that is the worse of both.
		"two numbers and a span missing": {chain: "shop", run: func(r *run) *run {
			return r.change(redisServer, numbered("GET item:18")).drop(proxyServer)
		},
			want: Report{Traces: 1, Wrong: 1, Orphaned: 1}},
		"one request, two traces": {chain: "nginx", run: func(r *run) *run {
			return r.change(1, unlinked).change(1, func(s *span.Span) { s.TraceID[0] = 9 }).change(2, func(s *span.Span) { s.TraceID[0] = 9 })
		},
			want: Report{Traces: 2, Split: 1, Incomplete: map[string]int{"missing proxy client /n/": 1, "missing proxy server /n/": 1}}},
		"ends where a call was not linked": {chain: "shop", run: func(r *run) *run {
			return r.change(shopServer, says(semconv.LinkingReason, "no_request")).drop(redisServer).drop(redisClient)
		},
			want: Report{Traces: 1, Unlinked: map[string]int{"ends at shop": 1}}},
		"one that may have been linked, and was": {chain: "shop", run: func(r *run) *run {
			return r.change(shopServer, says(semconv.LinkingReason, "no_request"))
		},
			want: Report{Traces: 1, Complete: 1}},
		"begins behind it": {chain: "nginx", run: func(r *run) *run {
			return r.change(2, unlinked).change(2, says(semconv.Behind, "proxy")).drop(1).drop(0)
		},
			want: Report{Traces: 1, Unlinked: map[string]int{"begins behind proxy": 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&run{}).trace(t, c.chain, 17)
			if c.run != nil {
				r = c.run(r)
			}
			truth, err := workloads.TruthOf(c.chain)
			require.NoError(t, err)
			compare(t, Classify(r.spans, truth), c.want, len(r.spans))
		})
	}
}

func compare(t *testing.T, got, want Report, spans int) {
	t.Helper()
	if got.Traces != want.Traces || got.Complete != want.Complete || got.Wrong != want.Wrong ||
		got.Orphaned != want.Orphaned || got.Split != want.Split || got.Spans != spans ||
		!maps.Equal(got.Incomplete, want.Incomplete) || !maps.Equal(got.Unlinked, want.Unlinked) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(got.CompleteIDs) != got.Complete || len(got.WrongIDs) != got.Wrong {
		t.Errorf("%d and %d ids of %d complete and %d wrong traces", len(got.CompleteIDs), len(got.WrongIDs), got.Complete, got.Wrong)
	}
	if sum := got.Complete + got.UnlinkedTotal() + got.IncompleteTotal() + got.Wrong; sum != got.Traces {
		t.Errorf("%d of %d traces have a verdict", sum, got.Traces)
	}
}

func TestManyTracesInAnyOrder(t *testing.T) {
	r := &run{}
	for n := range uint64(200) {
		r.trace(t, "shop", n)
	}
	truth, err := workloads.TruthOf("shop")
	require.NoError(t, err)
	require.Len(t, r.spans, 200*9, "spans")
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(r.spans), func(i, j int) { r.spans[i], r.spans[j] = r.spans[j], r.spans[i] })
	compare(t, Classify(r.spans, truth), Report{Traces: 200, Complete: 200}, 1800)
	// A span that swaps its trace with another request's makes both wrong.
	for i := range r.spans {
		j := (i + 1) % len(r.spans)
		if a, b := &r.spans[i], &r.spans[j]; a.TraceID != b.TraceID {
			a.TraceID, b.TraceID = b.TraceID, a.TraceID
			break
		}
	}
	got := Classify(r.spans, truth)
	if got.Wrong != 2 || got.Complete != 198 || got.Split != 2 {
		t.Errorf("after a swap: %+v", got)
	}
}

func TestExpectCountsWhatNeverCame(t *testing.T) {
	truth, err := workloads.TruthOf("nginx")
	require.NoError(t, err)
	r := Classify((&run{}).trace(t, "nginx", 1).spans, truth)
	r.Expect(5)
	if r.Traces != 5 || r.Incomplete[NoSpan] != 4 || r.IncompleteTotal() != 4 {
		t.Errorf("%+v", r)
	}
	r.Expect(3) // fewer than came: nothing is taken away
	assert.Equal(t, 5, r.Traces, "%+v", r)
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]subject{
		"/item/17":                      {"/item/", 17, true, false},
		"GET item:0":                    {"GET item:", 0, true, false},
		"17":                            {"", 17, true, false},
		"/item/":                        {prefix: "/item/"},
		"":                              {},
		"/n/1x":                         {prefix: "/n/1x"},
		"/n/9" + "99999999999999999999": {prefix: "/n/", number: 1<<64 - 1},
	} {
		assert.Equal(t, want, split(text), "split(%q)", text)
	}
}

// Requests of a mesh have the shapes of their numbers, and of no others'.
func TestShapesByNumber(t *testing.T) {
	truth, err := workloads.TruthOf("hotel")
	require.NoError(t, err)
	r := &run{}
	for n := range uint64(400) {
		r.trace(t, "hotel", n)
	}
	compare(t, Classify(r.spans, truth), Report{Traces: 400, Complete: 400}, len(r.spans))
	other := func(n uint64) Shape { return truth(n + 1) }
	if got := Classify(r.spans, other); got.Complete > 300 || got.Complete == 0 || got.Wrong > 0 {
		t.Errorf("with the shapes of other requests: %+v", got)
	}
	// What is seen within the services is less, and none of it is elsewhere.
	within := &run{}
	for n := range uint64(400) {
		within.add(truth.Within()(n), span.TraceID{1, byte(n), byte(n >> 8)}, span.ID{}, n)
	}
	assert.Less(t, len(within.spans), len(r.spans), "spans")
	compare(t, Classify(within.spans, truth.Within()), Report{Traces: 400, Complete: 400}, len(within.spans))
	assert.Zero(t, Classify(within.spans, truth).Complete, "complete traces without what is on the wire")
}

func TestSubjectOfACall(t *testing.T) {
	method, number := span.String("rpc.method", "Nearby"), span.String(metadataKey, "17")
	for _, c := range []struct {
		attrs []span.Attr
		want  subject
	}{
		{[]span.Attr{span.String("rpc.method", "hotel.Geo/Nearby"), number}, subject{"hotel.Geo/Nearby", 17, true, false}},
		{[]span.Attr{span.String("rpc.service", "hotel.Geo"), method, number}, subject{"hotel.Geo/Nearby", 17, true, false}},
		{[]span.Attr{method}, subject{prefix: "Nearby", call: true}},
		{[]span.Attr{method, span.String(metadataKey, "x")}, subject{prefix: "Nearby"}},
		{[]span.Attr{number}, subject{}},
		{[]span.Attr{span.String("db.statement", "GET personal:4")}, subject{"GET personal:", 4, true, false}},
	} {
		if got := subjectOf(&span.Span{Attrs: c.attrs}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.attrs, got, c.want)
		}
	}
}

// Where calls may be told by their methods, those without a number still need their
// place, and those with one are compared as ever.
func TestCallsByMethod(t *testing.T) {
	truth, err := workloads.TruthOf("hotel")
	require.NoError(t, err)
	const requests = 400
	made := func(spoil func(*run)) []span.Span {
		r := &run{}
		for n := range uint64(requests) {
			r.trace(t, "hotel", n)
		}
		for i := range r.spans {
			if s := &r.spans[i]; len(s.Attrs) == 2 && s.Attrs[1].Key == metadataKey {
				s.Attrs = s.Attrs[:1]
			}
		}
		spoil(r)
		return r.spans
	}
	untouched := func(*run) {}
	if got := Classify(made(untouched), truth); got.Complete > 0 || got.ByMethod > 0 {
		t.Errorf("%d of the traces are complete though their calls have no number", got.Complete)
	}
	if got := ClassifyByMethod(made(untouched), truth); got.Complete != requests || got.ByMethod != requests || got.Wrong > 0 {
		t.Errorf("%+v", got)
	}
	first := func(r *run, wanted func(*span.Span) bool) int {
		for i := range r.spans {
			if wanted(&r.spans[i]) {
				return i
			}
		}
		t.Fatal("there is no such span")
		return 0
	}
	call := func(s *span.Span) bool { return s.Kind == span.Client && subjectOf(s).call }
	for name, spoil := range map[string]func(*run){
		"missing":        func(r *run) { r.drop(first(r, call)) },
		"twice":          func(r *run) { i := first(r, call); r.spans = append(r.spans, r.spans[i]) },
		"nameless":       func(r *run) { r.change(first(r, call), unnamed) },
		"another method": func(r *run) { r.spans[first(r, call)].Attrs[0].Str = "hotel.Geo/Elsewhere" },
		"not a number": func(r *run) {
			i := first(r, call)
			r.spans[i].Attrs = append(r.spans[i].Attrs, span.String(metadataKey, "x"))
		},
		"elsewhere": func(r *run) {
			i := first(r, func(s *span.Span) bool { return call(s) && s.Resource.Service == "search" })
			r.spans[i].Parent = r.spans[first(r, func(s *span.Span) bool { return s.TraceID == r.spans[i].TraceID })].ID
		},
	} {
		if got := ClassifyByMethod(made(spoil), truth); got.Complete != requests-1 || got.IncompleteTotal() != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What has a number still says whose it is.
	stored := func(s *span.Span) bool { return subjectOf(s).named && s.Kind == span.Client }
	got := ClassifyByMethod(made(func(r *run) {
		i := first(r, stored)
		prefix := subjectOf(&r.spans[i]).prefix
		r.change(i, numbered(prefix+"399"))
	}), truth)
	if got.Wrong != 1 || got.Complete != requests-1 {
		t.Errorf("another's number: %+v", got)
	}
}

// OpenTelemetry's instrumentations give a call its whole URL, whose path is what
// counts.
func TestCallsNamedByTheirURL(t *testing.T) {
	truth, err := workloads.TruthOf("thesis-3")
	require.NoError(t, err)
	for url, want := range map[string]string{
		"http://127.0.0.1:41234/api/basic/7":   "",
		"http://127.0.0.1:41234/api/basic/7?x": "",
		"http://127.0.0.1:41234/api/basic/":    "unnamed first client /api/basic/",
		"http://127.0.0.1:41234":               "unnamed first client /api/basic/",
		"http://[::1/api/basic/7":              "unnamed first client /api/basic/",
		"http://127.0.0.1:41234/api/basic/8":   "wrong",
	} {
		r := (&run{}).trace(t, "thesis-3", 7)
		call := &r.spans[1]
		require.Equal(t, span.Client, call.Kind, "%+v", call)
		call.Attrs = []span.Attr{span.String("url.full", url)}
		report := Classify(r.spans, truth)
		switch want {
		case "":
			assert.Equal(t, 1, report.Complete, "%s: %+v", url, report)
		case "wrong":
			assert.Equal(t, 1, report.Wrong, "%s: %+v", url, report)
		default:
			assert.Equal(t, 1, report.Incomplete[want], "%s: %+v", url, report)
		}
	}
}
