package rootcause

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }

// one is the only entry of a diagnosis.
func one(t testing.TB, s *Set) Entry {
	t.Helper()
	d := s.Diagnose(Share)
	if len(d.Entries) != 1 {
		t.Fatalf("%d entry operations: %+v", len(d.Entries), d)
	}
	return d.Entries[0]
}

// The cause is found wherever it is: 25 to 30 ms in 3% of the requests, in a random
// operation of a random mesh, with 1,500 sampled traces.
func TestHeavyOneCause(t *testing.T) {
	right, told := 0, 0
	const n = 100
	for seed := range uint64(n) {
		r := seeded(seed)
		root, all := mesh(r, 4+r.IntN(12))
		x := all[r.IntN(len(all))]
		x.slowWires = x != root && r.IntN(6) == 0
		x.inject(0.03)
		e := one(t, requests(r, root, 1500))
		if x.charged(&e.Operations[0]) {
			right++
		} else {
			t.Logf("seed %d: %s %s is first in place of %+v: %s", seed, e.Operations[0].Kind, e.Operations[0].Name(), *x, e.Verdict.Text)
		}
		v := e.Verdict
		switch {
		case v.Status == Found && len(v.Causes) == 1 && x.charged(&v.Causes[0]):
			told++
		case v.Status == Found:
			t.Logf("seed %d: not only %s %s: %s", seed, x.service, x.operation, v.Text)
		default:
			t.Logf("seed %d: %s", seed, v.Text)
		}
	}
	t.Logf("first in %d of %d, named as the only cause in %d", right, n, told)
	if least := n * 95 / 100; right < least || told < least {
		t.Errorf("first in %d of %d, named as the only cause in %d", right, n, told)
	}
}

// Where no operation differs from the others, none is named.
func TestHeavyNoCause(t *testing.T) {
	named, n := 0, 40
	for seed := range uint64(n) {
		r := seeded(seed)
		root, all := mesh(r, 8+r.IntN(8))
		for _, x := range all {
			x.own = 1e6
		}
		if e := one(t, requests(r, root, 1500)); e.Verdict.Status == Found {
			named++
			t.Logf("seed %d: %s", seed, e.Verdict.Text)
		}
	}
	t.Logf("named in %d of %d", named, n)
	if named > n/20 {
		t.Errorf("a cause is named in %d of %d meshes without one", named, n)
	}
}

func TestHeavyTwoCauses(t *testing.T) {
	both, n := 0, 30
	for seed := range uint64(n) {
		r := seeded(seed)
		root, all := mesh(r, 12)
		x, y := all[1+r.IntN(5)], all[6+r.IntN(6)]
		x.inject(0.015)
		y.inject(0.015)
		v := one(t, requests(r, root, 1500)).Verdict
		if v.Status == Found && len(v.Causes) == 2 &&
			(x.charged(&v.Causes[0]) && y.charged(&v.Causes[1]) || y.charged(&v.Causes[0]) && x.charged(&v.Causes[1])) {
			both++
		} else {
			t.Logf("seed %d: %s", seed, v.Text)
		}
	}
	t.Logf("both in %d of %d", both, n)
	if both < n*9/10 {
		t.Errorf("both are named in %d of %d", both, n)
	}
}

// An interval holds what many more requests show, about as often as it says.
func TestHeavyIntervals(t *testing.T) {
	r := seeded(1)
	root, all := mesh(r, 8)
	all[5].inject(0.03)
	truth := map[string]float64{}
	for _, row := range one(t, requests(r, root, 40_000)).Operations {
		truth[row.Name()] = row.Explains.Value
	}
	held, n := 0, 0
	for seed := range uint64(40) {
		for _, row := range one(t, requests(seeded(1000+seed), root, 1500)).Operations {
			n++
			if want := truth[row.Name()]; row.Explains.Lo <= want && want <= row.Explains.Hi {
				held++
			}
		}
	}
	t.Logf("%d of %d intervals hold the truth", held, n)
	if got := float64(held) / float64(n); got < 0.90 || got > 0.99 {
		t.Errorf("intervals of 95%% hold the truth in %.1f%%", 100*got)
	}
}

// What each operation explains adds up.
func TestHeavySharesAddUp(t *testing.T) {
	for seed := range uint64(20) {
		r := seeded(seed)
		root, all := mesh(r, 10)
		all[r.IntN(10)].inject(0.03)
		e := one(t, requests(r, root, 400))
		for _, rows := range [][]Row{e.Operations, e.Services} {
			told, excess := 0.0, 0.0
			for i := range rows {
				told += rows[i].Explains.Value
				excess += rows[i].Excess.Value
			}
			if math.Abs(told-1) > 1e-6 || math.Abs(excess-(e.Slow.Mean-e.Normal.Mean)) > 1 {
				t.Fatalf("seed %d: %v of %v, excess %v of %v", seed, told, 1, excess, e.Slow.Mean-e.Normal.Mean)
			}
		}
	}
}

// Clocks that differ move no cause: not into the network, and not to the caller.
func TestHeavySkewedClocks(t *testing.T) {
	for seed := range uint64(15) {
		r := seeded(seed)
		root, all := mesh(r, 10)
		x := all[1+r.IntN(9)]
		x.inject(0.03)
		for _, y := range all {
			y.clock = int64(r.NormFloat64() * 200e6)
		}
		e := one(t, requests(r, root, 1500))
		if e.Verdict.Status != Found || !x.charged(&e.Verdict.Causes[0]) {
			t.Errorf("seed %d: %s %s: %s", seed, x.service, x.operation, e.Verdict.Text)
		}
		for _, row := range e.Operations {
			if row.Kind == Between && row.Normal < 0 {
				t.Errorf("seed %d: %s takes %v", seed, row.Name(), row.Normal)
			}
		}
	}
}

func TestClockMoves(t *testing.T) {
	for name, c := range map[string]struct {
		kind         ptrace.SpanKind
		start, end   uint64
		wantS, wantE uint64
	}{
		"within":                    {client, 110, 190, 110, 190},
		"too early":                 {client, 50, 130, 110, 190},
		"a little too long":         {client, 110, 200 + endSlack, 110, 200 + endSlack},
		"too late":                  {client, 150 + 2*endSlack, 210 + 2*endSlack, 120, 180},
		"longer than its caller":    {client, 50, 250, 100, 300},
		"outlives who did not wait": {ptrace.SpanKindProducer, 150 + 2*endSlack, 210 + 2*endSlack, 150 + 2*endSlack, 210 + 2*endSlack},
	} {
		q := newRequest(seeded(1))
		s := q.span("a", "root", ptrace.SpanKindServer, pcommon.SpanID{})
		up := q.span("a", "call", c.kind, s.SpanID())
		x := q.span("b", "work", ptrace.SpanKindServer, up.SpanID())
		in := q.span("b", "inner", ptrace.SpanKindInternal, x.SpanID())
		for y, at := range map[ptrace.Span][2]uint64{s: {90, 5 * endSlack}, up: {100, 200}, x: {c.start, c.end}, in: {c.start + 1, c.end - 1}} {
			y.SetStartTimestamp(pcommon.Timestamp(at[0]))
			y.SetEndTimestamp(pcommon.Timestamp(at[1]))
		}
		alignClocks(q.td)
		if got := [2]uint64{uint64(x.StartTimestamp()), uint64(x.EndTimestamp())}; got != [2]uint64{c.wantS, c.wantE} {
			t.Errorf("%s: %v", name, got)
		}
		if uint64(in.StartTimestamp()) != c.wantS+1 || uint64(in.EndTimestamp()) != c.wantE-1 {
			t.Errorf("%s: what is within did not move along: %v to %v", name, in.StartTimestamp(), in.EndTimestamp())
		}
	}
}

const client = ptrace.SpanKindClient

// Traces with a lost span are left out, so that its caller is not blamed.
func TestHeavyLostSpans(t *testing.T) {
	for seed := range uint64(10) {
		r := seeded(seed)
		root, all := mesh(r, 10)
		var inner []*node
		for _, x := range all[1:] {
			if len(x.stages) > 0 {
				inner = append(inner, x)
			}
		}
		x := inner[r.IntN(len(inner))]
		x.inject(0.03)
		x.lost = 0.2
		e := one(t, requests(r, root, 2000))
		if e.Verdict.Status != Found || !x.charged(&e.Verdict.Causes[0]) {
			t.Errorf("seed %d: %s: %s", seed, x.service, e.Verdict.Text)
		}
		if e.Incomplete < 300 || e.Traces+e.Incomplete != 2000 || !noted(e, "are incomplete and were left out") {
			t.Errorf("seed %d: %d left out: %q", seed, e.Incomplete, e.Verdict.Notes)
		}
	}
}

func noted(e Entry, text string) bool {
	return strings.Contains(strings.Join(e.Verdict.Notes, "\n"), text)
}

// chain is a -> b, in which 3% of the requests are slow at b.
func chain() (a, b *node) {
	b = &node{service: "b", operation: "work", own: 1e6, wire: 1e5}
	a = &node{service: "a", operation: "GET /", own: 1e6, wire: 1e5, stages: [][]*node{{b}}}
	b.inject(0.03)
	return a, b
}

// Each reason not to tell is said, with what to do.
func TestCannotTell(t *testing.T) {
	build := func(n int, change func(td ptrace.Traces, slow bool)) Entry {
		r := seeded(9)
		a, _ := chain()
		set := NewSet()
		for range n {
			q := newRequest(r)
			end := q.serve(a, pcommon.SpanID{}, 0)
			if change != nil {
				change(q.td, end > 20e6)
			}
			set.Add(q.td)
		}
		return one(t, set)
	}
	top := func(td ptrace.Traces) pcommon.Map {
		return td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes()
	}
	for name, c := range map[string]struct {
		n          int
		change     func(td ptrace.Traces, slow bool)
		status     Status
		text, note string
	}{
		"found":   {1500, nil, Found, "b work explains", ""},
		"too few": {200, nil, CannotTell, "only 4 slow among 200 whole traces, and at least 6 are needed", "about 300 traces are needed"},
		"slow ones incomplete": {1500, func(td ptrace.Traces, slow bool) {
			if slow {
				top(td).PutStr(semconv.TraceState, semconv.StateIncomplete)
				top(td).PutStr(semconv.TraceReason, "no_root,call_missing")
			}
		}, CannotTell, "of the traces that are as long as the slow ones are incomplete", "what lost their spans"},
		"nearly all incomplete": {1500, func(td ptrace.Traces, _ bool) {
			top(td).PutStr(semconv.TraceState, semconv.StateIncomplete)
			top(td).PutStr(semconv.TraceReason, "server_missing")
		}, CannotTell, "among 0 whole traces", "1500 of 1500 traces are incomplete"},
		"only chosen ones": {1500, func(td ptrace.Traces, slow bool) {
			top(td).PutStr(semconv.KeepReason, map[bool]string{true: "slow", false: "error"}[slow])
		}, CannotTell, "no normal ones to compare with", "tare_keep's share"},
		"calls not linked": {1500, func(td ptrace.Traces, _ bool) {
			td.ResourceSpans().At(1).ScopeSpans().At(0).Spans().At(0).Attributes().PutStr(semconv.Linking, semconv.LinkingNone)
		}, CannotTell, "b work explains", "not known whether it is slow itself or waits"},
		"all failed": {1500, func(td ptrace.Traces, _ bool) {
			td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Status().SetCode(ptrace.StatusCodeError)
		}, Found, "b work explains", "all traces failed"},
	} {
		e := build(c.n, c.change)
		if b, err := json.Marshal(e); err != nil || bytes.Contains(b, []byte("null")) {
			t.Errorf("%s: %v: a list is null, which the page does not expect: %s", name, err, b)
		}
		if e.Verdict.Status != c.status || !strings.Contains(e.Verdict.Text, c.text) || c.note != "" && !noted(e, c.note) {
			t.Errorf("%s: %s: %s %q", name, e.Verdict.Status, e.Verdict.Text, e.Verdict.Notes)
		}
	}
}

// Slow traces that are hardly slower than others need no explanation.
func TestNotSlower(t *testing.T) {
	r := seeded(4)
	a, b := chain()
	b.slow = nil
	set := NewSet()
	for range 1500 {
		q := newRequest(r)
		q.noise = 0.005
		q.serve(a, pcommon.SpanID{}, 0)
		set.Add(q.td)
	}
	if e := one(t, set); e.Verdict.Status != Nothing || !strings.Contains(e.Verdict.Text, "nothing to explain: the slowest 2% are") {
		t.Errorf("%+v", e.Verdict)
	}
}

// Sampling that prefers slow traces, and says so in the tracestate, changes nothing: the
// same requests are slow as without sampling.
func TestWeights(t *testing.T) {
	r := seeded(5)
	a, b := chain()
	b.every = 0.3 // among the slowest 2% as many as among others that are slow
	c := &node{service: "c", operation: "rare", own: 1e6, wire: 1e5, every: 0.02}
	c.slow = func(r *rand.Rand) float64 { return 100e6 }
	a.stages = append(a.stages, []*node{c})
	full, sampled, blind := NewSet(), NewSet(), NewSet()
	for range 8000 {
		q := newRequest(r)
		end := q.serve(a, pcommon.SpanID{}, 0)
		full.Add(q.td)
		state := "ot=th:0"
		if end < 20e6 {
			if r.IntN(16) > 0 {
				continue
			}
			state = "ot=th:f" // 1 in 16
		}
		blind.Add(q.td)
		for _, rs := range q.td.ResourceSpans().All() {
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				s.TraceState().FromRaw(state)
			}
		}
		sampled.Add(q.td)
	}
	want, got, wrong := one(t, full), one(t, sampled), one(t, blind)
	if math.Abs(got.Requests-8000) > 800 || math.Abs(got.Normal.Mean/want.Normal.Mean-1) > 0.1 || math.Abs(got.Slow.Mean/want.Slow.Mean-1) > 0.02 {
		t.Errorf("%v requests, normal %v, slow %v, want %v and %v", got.Requests, got.Normal.Mean, got.Slow.Mean, want.Normal.Mean, want.Slow.Mean)
	}
	if wrong.Normal.Mean < 1.5*want.Normal.Mean {
		t.Errorf("without weights, normal is %v: the test shows nothing", wrong.Normal.Mean)
	}
	if got.Verdict.Status != Found || !c.charged(&got.Verdict.Causes[0]) {
		t.Errorf("%s", got.Verdict.Text)
	}
}

// What is slow only because of what it calls is told from what is slow itself.
func TestWaitsAndCalls(t *testing.T) {
	a, b := chain()
	front := &node{service: "front", operation: "GET /", own: 1e6, wire: 1e5, stages: [][]*node{{a}}}
	e := one(t, requests(seeded(3), front, 1500))
	for _, row := range e.Operations {
		switch {
		case b.charged(&row):
			if row.Role != Cause || row.Waits > 1e6 || row.Excess.Value < 20e6 || len(row.Examples) != 3 {
				t.Errorf("b: %+v", row)
			}
		case row.Kind == Own:
			if row.Role != Waits || math.Abs(row.Waits/e.Operations[0].Excess.Value-1) > 0.1 {
				t.Errorf("%s: %+v", row.Name(), row)
			}
		case row.Role != "":
			t.Errorf("%s: %+v", row.Name(), row)
		}
	}
	if e.Tails[0].Service != "b" || e.Tails[0].Ratio < 10 || e.Tails[0].Share < 0.1 || e.Tails[1].Ratio > 10 {
		t.Errorf("tails: %+v", e.Tails)
	}

	// Three times as many calls, each as fast as ever.
	set, r := NewSet(), seeded(6)
	for k := range 1500 {
		x := &node{service: "b", operation: "work", own: 1e6, wire: 1e4}
		y := &node{service: "a", operation: "GET /", own: 1e5, wire: 1e4, stages: [][]*node{{x}}}
		if k%33 == 0 {
			for range 20 {
				y.stages = append(y.stages, []*node{x})
			}
		}
		q := newRequest(r)
		q.serve(y, pcommon.SpanID{}, 0)
		set.Add(q.td)
	}
	if v := one(t, set).Verdict; v.Status != Found || !strings.Contains(v.Text, "b work") || !strings.Contains(v.Text, "called 21.0 times in place of 1.0") {
		t.Errorf("%+v", v)
	}
}

// Names that differ from request to request: the service is found.
func TestNamesWithIds(t *testing.T) {
	r := seeded(8)
	a, b := chain()
	set := NewSet()
	for k := range 1500 {
		b.operation = fmt.Sprintf("GET /item/%d", k)
		q := newRequest(r)
		q.serve(a, pcommon.SpanID{}, 0)
		set.Add(q.td)
	}
	if v := one(t, set).Verdict; v.Status != Found || !v.ByService || v.Causes[0].Service != "b" || v.Causes[0].Operation != "" {
		t.Errorf("%+v", v)
	}
}

// Targets tell operations apart where there are few of them, not where each is another;
// numbers and the like in them do not.
func TestTargets(t *testing.T) {
	words := func(k int) string {
		return "/" + string([]rune{'a' + rune(k%26), 'a' + rune(k/26%26), 'a' + rune(k/676)})
	}
	for _, c := range []struct {
		path      func(k int) string
		different int
		entries   int
		want      string
	}{{words, 3, 3, "GET /aaa"}, {words, 1500, 1, "GET"}, {func(k int) string { return fmt.Sprintf("/item/%d", k) }, 1500, 1, "GET /item/{id}"}} {
		set, r := NewSet(), seeded(2)
		for k := range 1500 {
			a, _ := chain()
			a.operation = "GET"
			q := newRequest(r)
			q.serve(a, pcommon.SpanID{}, 0)
			q.td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutStr("url.path", c.path(k%c.different))
			set.Add(q.td)
		}
		d := set.Diagnose(Share)
		if len(d.Entries) != c.entries || d.Entries[0].Operation != c.want {
			t.Errorf("%d targets like %s: %d entries, the first is %q", c.different, c.path(1), len(d.Entries), d.Entries[0].Operation)
		}
	}
}

// Whatever the spans are, the result is finite.
func FuzzAdd(f *testing.F) {
	a, _ := chain()
	q := newRequest(seeded(1))
	q.serve(a, pcommon.SpanID{}, 0)
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(q.td)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			t.Skip()
		}
		set := NewSet()
		for range minSlow {
			set.Add(td)
		}
		for _, e := range set.Diagnose(MaxShare).Entries {
			for _, r := range e.Operations {
				for _, x := range []float64{r.Explains.Value, r.Explains.Lo, r.Explains.Hi, r.Excess.Value, r.Normal, r.Slow, r.Waits} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("%+v", r)
					}
				}
			}
		}
	})
}
