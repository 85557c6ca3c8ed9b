package waterfall

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// one is a span of a test: id and parent are small numbers, 0 is none.
type one struct {
	id, parent byte
	start, end uint64
	kind       ptrace.SpanKind
	attrs      map[string]any
}

const base = 1_700_000_000_000_000_000

// build makes pdata with a service for each span, named after its place.
func build(t testing.TB, spans []one) ptrace.Traces {
	td := ptrace.NewTraces()
	for i, o := range spans {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "s"+strconv.Itoa(i))
		s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(pcommon.SpanID{7: o.id})
		s.SetParentSpanID(pcommon.SpanID{7: o.parent})
		s.SetName("op")
		s.SetKind(o.kind)
		s.SetStartTimestamp(pcommon.Timestamp(base + o.start))
		s.SetEndTimestamp(pcommon.Timestamp(base + o.end))
		if err := s.Attributes().FromRaw(o.attrs); err != nil {
			t.Fatal(err)
		}
		if o.attrs["fails"] == true {
			s.Status().SetCode(ptrace.StatusCodeError)
		}
	}
	return td
}

// names is the services in order.
func (t *Trace) names() []string {
	var out []string
	for i := range t.Spans {
		out = append(out, t.Services[t.Spans[i].Service].Name)
	}
	return out
}

// random is a trace with whatever can be wrong in one: spans that outlive or
// precede their parents, missing parents, copies, circles. Times are multiples
// of 100 ns below 1 ms, which the terminal's tree prints exactly.
func random(r *rand.Rand) []one {
	spans := make([]one, 1+r.IntN(12))
	for i := range spans {
		start := r.Uint64N(5000) * 100
		spans[i] = one{id: byte(1 + r.IntN(14)), start: start, end: start + r.Uint64N(4000)*100}
		if r.IntN(4) > 0 {
			spans[i].parent = byte(1 + r.IntN(16))
		}
		if spans[i].parent == spans[i].id {
			spans[i].parent = 0
		}
	}
	return spans
}

// The page and the terminal must show the same self times.
func TestOrderAndSelfTimeAreTheTerminals(t *testing.T) {
	for seed := range uint64(3000) {
		spans := random(rand.New(rand.NewPCG(seed, 1)))
		var model []span.Span
		for i, o := range spans {
			model = append(model, span.Span{
				TraceID: span.TraceID{15: 1}, ID: span.ID{7: o.id}, Parent: span.ID{7: o.parent},
				Kind: span.Internal, Name: "op", Start: base + o.start, End: base + o.end,
				Resource: &span.Resource{Service: "s" + strconv.Itoa(i)},
			})
		}
		var printed strings.Builder
		if err := span.WriteTree(&printed, model); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, line := range strings.Split(strings.TrimSpace(printed.String()), "\n")[2:] {
			fields := strings.Fields(strings.TrimLeft(line, "│├└─ "))
			want = append(want, fields[0]+" "+fields[len(fields)-2])
		}
		trace := Analyse(build(t, spans))
		var got []string
		for i, name := range trace.names() {
			got = append(got, fmt.Sprintf("%s %.1f", name, float64(trace.Spans[i].Self)/1000))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got  %q\nwant %q\n%s", seed, got, want, &printed)
		}
	}
}

// What was on the critical path is every moment of the top span, once.
func TestCriticalPathCoversTheTopSpanOnce(t *testing.T) {
	for seed := range uint64(3000) {
		spans := random(rand.New(rand.NewPCG(seed, 2)))
		checkCritical(t, Analyse(build(t, spans)), fmt.Sprintf("seed %d: %+v", seed, spans))
	}
}

func checkCritical(t *testing.T, trace *Trace, about string) {
	t.Helper()
	var path []Interval
	for i := range trace.Spans {
		s := &trace.Spans[i]
		last := s.Start
		for _, c := range s.Critical {
			if c.From >= c.To || c.From < last || c.To > s.Start+s.Duration {
				t.Fatalf("%s: span %d, from %d for %d, has %v", about, i, s.Start, s.Duration, s.Critical)
			}
			last = c.To
		}
		path = append(path, s.Critical...)
	}
	slices.SortFunc(path, func(a, b Interval) int { return int(a.From) - int(b.From) })
	top := topSpan(trace)
	at := top.Start
	for _, c := range path {
		if c.From != at {
			t.Fatalf("%s: path %v leaves or doubles %d", about, path, at)
		}
		at = c.To
	}
	if at != top.Start+top.Duration {
		t.Fatalf("%s: path ends at %d, the top span at %d", about, at, top.Start+top.Duration)
	}
}

// topSpan is the earliest root, else the first in order.
func topSpan(trace *Trace) *Span {
	var top *Span
	for i := range trace.Spans {
		s := &trace.Spans[i]
		if s.ParentSpanID().IsEmpty() && (top == nil || s.Start < top.Start) {
			top = s
		}
	}
	if top == nil {
		top = &trace.Spans[0]
	}
	return top
}

func TestCriticalPath(t *testing.T) {
	for name, c := range map[string]struct {
		spans []one
		want  string // service:from-to
	}{
		"alone":         {[]one{{1, 0, 0, 10, 0, nil}}, "s0:0-10"},
		"one after one": {[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 10, 30, 0, nil}, {3, 1, 50, 90, 0, nil}}, "s0:0-10 s1:10-30 s0:30-50 s2:50-90 s0:90-100"},
		"the slower of two beside each other": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 10, 60, 0, nil}, {3, 1, 10, 90, 0, nil}}, "s0:0-10 s2:10-90 s0:90-100"},
		"overlapping: the first cannot have caused the second": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 10, 60, 0, nil}, {3, 1, 40, 90, 0, nil}}, "s0:0-40 s2:40-90 s0:90-100"},
		"asynchronous, outlives its parent": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 80, 300, 0, nil}}, "s0:0-80 s1:80-100"},
		"begins after its parent": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 200, 300, 0, nil}}, "s0:0-100"},
		"across services, nested": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 10, 90, 0, nil}, {3, 2, 20, 80, 0, nil}, {4, 3, 30, 40, 0, nil}},
			"s0:0-10 s1:10-20 s2:20-30 s3:30-40 s2:40-80 s1:80-90 s0:90-100"},
		"a grandchild beyond its parent's parent": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 1, 50, 200, 0, nil}, {3, 2, 90, 150, 0, nil}}, "s0:0-50 s1:50-90 s2:90-100"},
		"not of another root": {
			[]one{{1, 0, 0, 100, 0, nil}, {2, 0, 10, 500, 0, nil}}, "s0:0-100"},
		"of the root, though another is earlier": {
			[]one{{1, 9, 0, 50, 0, nil}, {2, 0, 10, 60, 0, nil}}, "s1:10-60"},
	} {
		trace := Analyse(build(t, c.spans))
		var parts []string
		var at []uint64
		for i, n := range trace.names() {
			for _, s := range trace.Spans[i].Critical {
				pos, _ := slices.BinarySearch(at, s.From)
				at = slices.Insert(at, pos, s.From)
				parts = slices.Insert(parts, pos, fmt.Sprintf("%s:%d-%d", n, s.From, s.To))
			}
		}
		if got := strings.Join(parts, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestGapsAreWhatNoSpanCovers(t *testing.T) {
	for seed := range uint64(2000) {
		spans := random(rand.New(rand.NewPCG(seed, 3)))
		trace := Analyse(build(t, spans))
		covered := map[uint64]bool{} // by 100 ns
		first, last := ^uint64(0), uint64(0)
		for _, s := range spans {
			first, last = min(first, s.start), max(last, s.end)
			for at := s.start; at < s.end; at += 100 {
				covered[at] = true
			}
		}
		if trace.Start != base+first || trace.End != base+last {
			t.Fatalf("seed %d: from %d to %d, want %d to %d", seed, trace.Start-base, trace.End-base, first, last)
		}
		open := map[uint64]bool{}
		for _, g := range trace.Gaps {
			if g.From >= g.To {
				t.Fatalf("seed %d: gap %v", seed, g)
			}
			for at := g.From; at < g.To; at += 100 {
				open[first+at] = true
			}
		}
		for at := first; at < last; at += 100 {
			if covered[at] == open[at] {
				t.Fatalf("seed %d: at %d covered %v, in a gap %v", seed, at, covered[at], open[at])
			}
		}
	}
}

func TestMissing(t *testing.T) {
	client, server := ptrace.SpanKindClient, ptrace.SpanKindServer
	traced := map[string]any{semconv.PeerTraced: true}
	for name, c := range map[string]struct {
		spans          []one
		parent, server []bool
	}{
		"all there":              {[]one{{1, 0, 0, 9, client, traced}, {2, 1, 1, 8, server, nil}}, []bool{false, false}, []bool{false, false}},
		"no server":              {[]one{{1, 0, 0, 9, client, traced}}, []bool{false}, []bool{true}},
		"only an inner span":     {[]one{{1, 0, 0, 9, client, traced}, {2, 1, 1, 8, ptrace.SpanKindInternal, nil}}, []bool{false, false}, []bool{true, false}},
		"peer not traced":        {[]one{{1, 0, 0, 9, client, map[string]any{semconv.PeerTraced: false}}}, []bool{false}, []bool{false}},
		"nobody answered":        {[]one{{1, 0, 0, 9, client, map[string]any{semconv.PeerTraced: true, "fails": true}}}, []bool{false}, []bool{false}},
		"answered with an error": {[]one{{1, 0, 0, 9, client, map[string]any{semconv.PeerTraced: true, "fails": true, "http.response.status_code": 502}}}, []bool{false}, []bool{true}},
		"shared id":              {[]one{{1, 0, 0, 9, client, traced}, {1, 0, 1, 8, server, nil}}, []bool{false, false}, []bool{false, false}},
		"two clients of one id":  {[]one{{1, 0, 0, 9, client, traced}, {1, 0, 1, 8, client, traced}}, []bool{false, false}, []bool{true, true}},
		"no parent":              {[]one{{2, 1, 0, 9, server, nil}}, []bool{true}, []bool{false}},
		"its own parent":         {[]one{{2, 2, 0, 9, server, nil}}, []bool{false}, []bool{false}},
		"each other's parent":    {[]one{{1, 2, 0, 9, server, nil}, {2, 1, 0, 9, server, nil}}, []bool{false, false}, []bool{false, false}},
	} {
		trace := Analyse(build(t, c.spans))
		if len(trace.Spans) != len(c.spans) {
			t.Errorf("%s: %d spans of %d", name, len(trace.Spans), len(c.spans))
		}
		for i := range trace.Spans {
			if s := trace.Spans[i]; s.MissingParent != c.parent[i] || s.MissingServer != c.server[i] {
				t.Errorf("%s: span %d: missing parent %v, server %v", name, i, s.MissingParent, s.MissingServer)
			}
		}
	}
}

func TestWhatTheCollectorSaid(t *testing.T) {
	td := build(t, []one{
		{2, 1, 5, 9, 0, map[string]any{semconv.Late: true, semconv.ClockOffset: int64(-77), semconv.LinkedBy: "sequence"}},
		{1, 0, 0, 10, 0, map[string]any{semconv.TraceState: semconv.StateIncomplete, semconv.TraceReason: "server_missing,parent_missing", semconv.KeepReason: "slow"}},
	})
	td.ResourceSpans().At(1).ScopeSpans().At(0).Spans().At(0).TraceState().FromRaw("x=y,ot=th:c;rv:1")
	trace := Analyse(td)
	if trace.State != "incomplete" || trace.Reason != "server_missing,parent_missing" || trace.Keep != "slow" || trace.Weight != 4 {
		t.Errorf("got %+v", trace)
	}
	if s := trace.Spans[1]; !s.Late || s.ClockOffset != -77 || s.LinkedBy != "sequence" || s.Depth != 1 {
		t.Errorf("got %+v", s)
	}
	// Late spans may have brought an earlier top: what was said is still found.
	late := build(t, []one{{1, 0, 0, 10, 0, nil}, {2, 1, 5, 9, 0, map[string]any{semconv.TraceState: semconv.StateIncomplete, semconv.TraceReason: "no_root"}}})
	if trace := Analyse(late); trace.State != "incomplete" || trace.Reason != "no_root" {
		t.Errorf("got %q %q", trace.State, trace.Reason)
	}
}

func TestRetroactive(t *testing.T) {
	marked := map[string]any{semconv.Retro: true}
	spans := []one{{1, 0, 0, 10, 0, marked}, {2, 1, 5, 9, 0, map[string]any{semconv.Retro: true, semconv.RetroReason: "no_response"}}, {3, 2, 6, 8, 0, nil}}
	trace := Analyse(build(t, spans))
	if trace.Weight != 0 || trace.Retro.String() != "no_response" {
		t.Errorf("stands for %v, kept for %q", trace.Weight, trace.Retro)
	}
	// Of a trace that was sampled, too, the threshold counts, on whichever span it is.
	td := build(t, spans)
	td.ResourceSpans().At(2).ScopeSpans().At(0).Spans().At(0).TraceState().FromRaw("ot=th:c")
	if trace := Analyse(td); trace.Weight != 4 || trace.Retro != 0 {
		t.Errorf("stands for %v, kept for %q", trace.Weight, trace.Retro)
	}
	if !Reads(semconv.Retro) || !Reads(semconv.RetroReason) {
		t.Error("a trace that is read in part lacks it")
	}
}

func TestTimesThatCannotBe(t *testing.T) {
	td := build(t, []one{{1, 0, 100, 50, 0, nil}, {2, 1, 0, 0, 0, nil}, {3, 1, 0, 0, 0, nil}, {4, 1, 0, 0, 0, nil}})
	at := func(i int) ptrace.Span { return td.ResourceSpans().At(i).ScopeSpans().At(0).Spans().At(0) }
	at(1).SetStartTimestamp(0) // ends at base
	at(2).SetStartTimestamp(0)
	at(2).SetEndTimestamp(0)
	at(3).SetStartTimestamp(base + 200)
	at(3).SetEndTimestamp(0)
	trace := Analyse(td)
	if trace.Start != base || trace.End != base+200 {
		t.Errorf("from %d to %d", trace.Start, trace.End)
	}
	for i := range trace.Spans {
		if trace.Spans[i].Duration != 0 || trace.Spans[i].Self != 0 {
			t.Errorf("span %d lasts %d", i, trace.Spans[i].Duration)
		}
	}
	zero := ptrace.NewTraces()
	zero.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	if got := Analyse(zero); got.Start != 0 || got.End != 0 || len(got.Spans) != 1 || got.Services[0].Name != "(unknown)" {
		t.Errorf("got %+v", got)
	}
	if got := Analyse(ptrace.NewTraces()); len(got.Spans) != 0 || got.Weight != 1 {
		t.Errorf("got %+v", got)
	}
}

// chain is n spans, each below the one before; wide is n below the first.
func chain(n int, wide bool) ptrace.Traces {
	td := ptrace.NewTraces()
	var all []ptrace.SpanSlice
	for i := range 5 {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "s"+strconv.Itoa(i))
		all = append(all, rs.ScopeSpans().AppendEmpty().Spans())
	}
	id := func(i int) pcommon.SpanID { return pcommon.SpanID{4: byte(i >> 16), 5: byte(i >> 8), 6: byte(i), 7: 1} }
	for i := range n {
		s := all[i%5].AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(id(i))
		if i > 0 && wide {
			s.SetParentSpanID(id(0))
		} else if i > 0 {
			s.SetParentSpanID(id(i - 1))
		}
		s.SetName("op")
		s.SetStartTimestamp(pcommon.Timestamp(base + 2*i))
		end := base + 1_000_000 - 2*i
		if wide && i > 0 {
			end = base + 2*i + 2
		}
		s.SetEndTimestamp(pcommon.Timestamp(end))
		for k := range 12 {
			s.Attributes().PutStr("key."+strconv.Itoa(k), "value")
		}
	}
	return td
}

func TestDeepAndWide(t *testing.T) {
	for _, wide := range []bool{false, true} {
		trace := Analyse(chain(100_000, wide))
		if len(trace.Spans) != 100_000 || len(trace.Services) != 5 {
			t.Fatalf("%d spans", len(trace.Spans))
		}
		want := 99_999
		if wide {
			want = 1
		}
		if got := trace.Spans[99_999].Depth; got != want {
			t.Errorf("depth %d, want %d", got, want)
		}
		checkCritical(t, trace, "large")
	}
}

func FuzzAnalyse(f *testing.F) {
	seed, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(build(f, []one{{1, 2, 0, 9, 2, nil}, {2, 1, 3, 5, 3, map[string]any{semconv.PeerTraced: true}}, {2, 9, 3, 1, 3, nil}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			t.Skip()
		}
		trace := Analyse(td)
		if len(trace.Spans) != td.SpanCount() {
			t.Fatalf("%d spans of %d", len(trace.Spans), td.SpanCount())
		}
		for i := range trace.Spans {
			if s := &trace.Spans[i]; s.Self > s.Duration || s.Start+s.Duration > trace.End-trace.Start {
				t.Fatalf("span %d: %d of %d at %d", i, s.Self, s.Duration, s.Start)
			}
		}
	})
}
