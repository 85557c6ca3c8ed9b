package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/workloads"
)

// testBatches hold all rare traces.
const testBatches = (rareEvery*rareCount)/tracesPerBatch + 1

// The parent's tests start this binary as a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// filled is a directory of the engine with so many batches.
func filled(t *testing.T, e *candidate, batches int) string {
	t.Helper()
	dir := t.TempDir()
	s, err := e.open(dir)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTraffic()
	if err != nil {
		t.Fatal(err)
	}
	for n := range batches {
		if err := s.write(t.Context(), tr.batch(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reference answers from the generator's spans, one after the other.
type reference struct {
	failed, rare []string
	durations    map[string][]time.Duration // of entries
	errors       map[string]float64
	trace        string // trace 2000, normal form
}

func newReference(t *testing.T) *reference {
	t.Helper()
	tr, err := newTraffic()
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{durations: map[string][]time.Duration{}, errors: map[string]float64{}}
	for n := range testBatches {
		type trace struct {
			summary
			end                uint64
			failedHit, rareHit bool
		}
		traces := map[string]*trace{}
		td := tr.batch(n)
		for _, rs := range td.ResourceSpans().All() {
			name, _ := rs.Resource().Attributes().Get("service.name")
			service := name.Str()
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				x := traces[s.TraceID().String()]
				if x == nil {
					x = &trace{summary: summary{trace: s.TraceID(), start: math.MaxUint64}}
					traces[s.TraceID().String()] = x
				}
				d := time.Duration(s.EndTimestamp() - s.StartTimestamp())
				failed := s.Status().Code() == ptrace.StatusCodeError
				x.spans++
				x.start, x.end = min(x.start, uint64(s.StartTimestamp())), max(x.end, uint64(s.EndTimestamp()))
				if s.ParentSpanID().IsEmpty() {
					x.name, x.service = s.Name(), service
				}
				if failed {
					x.errors++
				}
				x.failedHit = x.failedHit || failed && service == failedQuery.service && d >= failedQuery.min
				x.rareHit = x.rareHit || failed && service == rareQuery.service && d >= rareQuery.min
				if s.Kind() == ptrace.SpanKindServer {
					r.durations[service] = append(r.durations[service], d)
					if failed {
						r.errors[service]++
					}
				}
			}
		}
		found := make([]*trace, 0, len(traces))
		for _, x := range traces {
			x.duration = time.Duration(x.end - x.start)
			found = append(found, x)
		}
		slices.SortFunc(found, func(a, b *trace) int { return int(b.start) - int(a.start) })
		var failed, rare []string
		for _, x := range found {
			text := fmt.Sprintf("%+v", x.summary)
			if x.failedHit {
				failed = append(failed, text)
			}
			if x.rareHit {
				rare = append(rare, text)
			}
		}
		// Later batches are newer.
		r.failed, r.rare = append(failed, r.failed...), append(rare, r.rare...)
		if n == 2000/tracesPerBatch {
			r.trace = normal(t, only(td, 2000))
		}
	}
	return r
}

// only is the spans of one trace.
func only(td ptrace.Traces, n uint64) ptrace.Traces {
	one := ptrace.NewTraces()
	td.CopyTo(one)
	one.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		ss := rs.ScopeSpans().At(0)
		ss.Spans().RemoveIf(func(s ptrace.Span) bool { return s.TraceID() != traceID(n) })
		return ss.Spans().Len() == 0
	})
	return one
}

// normal has a line for each span, in any order the same.
func normal(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	var lines []string
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				one := ptrace.NewTraces()
				r := one.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(r.Resource())
				x := r.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(x.Scope())
				s.CopyTo(x.Spans().AppendEmpty())
				text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(one)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, string(text))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Every engine answers what the spans say, after it was opened again.
func TestEnginesAnswer(t *testing.T) {
	want := newReference(t)
	if len(want.rare) != rareCount || len(want.failed) == 0 || len(want.failed) > failedQuery.limit {
		t.Fatalf("the generator's spans have %d and %d traces to find", len(want.failed), len(want.rare))
	}
	for i := range candidates {
		e := &candidates[i]
		t.Run(e.name, func(t *testing.T) {
			dir := filled(t, e, testBatches)
			s, err := e.open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			td, err := s.trace(t.Context(), traceID(2000))
			if err != nil {
				t.Fatal(err)
			}
			if got := normal(t, td); got != want.trace || td.SpanCount() != workloads.SpansPerTrace {
				t.Errorf("trace 2000 is\n%s\nnot\n%s", got, want.trace)
			}
			if _, err := s.trace(t.Context(), traceID(testBatches*tracesPerBatch)); err == nil {
				t.Error("a trace that was not written is there")
			}
			m := measured{}
			if err := m.read(t.Context(), s, testBatches*tracesPerBatch); err != nil {
				t.Fatal(err)
			}
			expected := answers{Failed: want.failed, Rare: want.rare, Latencies: map[string][]float64{}}
			for service, ds := range want.durations {
				slices.Sort(ds)
				at := func(q int) float64 { return float64(ds[len(ds)*q/100]) }
				expected.Latencies[service] = []float64{float64(len(ds)), want.errors[service], at(50), at(95), at(99)}
			}
			if err := expected.differ(m.Answers); err != nil {
				t.Error(err)
			}
			one, err := s.search(t.Context(), query{service: failedQuery.service, min: failedQuery.min, failed: true, limit: 2})
			if err != nil || len(one) != 2 || fmt.Sprintf("%+v", one[1]) != want.failed[1] {
				t.Errorf("the newest two are %+v, %v; not %v", one, err, want.failed[:2])
			}
			// Both of the proxy's spans meet it.
			twice, err := s.search(t.Context(), query{service: "proxy", failed: true, limit: 6})
			ids := map[pcommon.TraceID]bool{}
			for _, x := range twice {
				ids[x.trace] = true
			}
			if err != nil || len(twice) != 6 || len(ids) != 6 {
				t.Errorf("six traces are %+v, %v", twice, err)
			}
		})
	}
}

// What is missing is counted.
func TestVerify(t *testing.T) {
	e := &candidates[0]
	dir := filled(t, e, 2)
	k, err := verify(t.Context(), e, dir, 2)
	if want := (killed{Acknowledged: 2, LookedUp: tracesPerBatch/10 + 2*tracesPerBatch, Open: k.Open}); err != nil || k != want {
		t.Errorf("%+v, %v; want %+v", k, err, want)
	}
	if k, err = verify(t.Context(), e, dir, 3); err != nil || k.Lost != tracesPerBatch {
		t.Errorf("of three batches two are there: %+v, %v", k, err)
	}
	s, err := e.open(dir)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTraffic()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), only(tr.batch(2), 2*tracesPerBatch)); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if k, err = verify(t.Context(), e, dir, 2); err != nil || !k.Torn {
		t.Errorf("of the third batch one trace is there: %+v, %v", k, err)
	}
}

// Killed while it writes, by processes as in a comparison.
func TestKill(t *testing.T) {
	c := &comparison{dir: t.TempDir()}
	k, err := c.kill(t.Context(), &candidates[0])
	if err != nil || k.Acknowledged < killAfter || k.Lost+k.Partial > 0 || k.Torn || k.Unopened != "" {
		t.Errorf("%+v, %v", k, err)
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// Answers that differ are told apart, and those within the tolerance are not.
func TestDiffer(t *testing.T) {
	a := answers{Failed: []string{"x"}, Rare: []string{"1", "2", "3"}, Latencies: map[string][]float64{"s": {10, 1, 100, 200, 300}}}
	copied := func(change func(*answers)) answers {
		b := answers{}
		text, err := json.Marshal(a)
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			t.Fatal(err)
		}
		change(&b)
		return b
	}
	if b := copied(func(b *answers) { b.Latencies["s"][3] = 203 }); a.differ(b) != nil {
		t.Error(a.differ(b))
	}
	for name, change := range map[string]func(*answers){
		"search":       func(b *answers) { b.Failed[0] = "y" },
		"rare":         func(b *answers) { b.Rare[2] = "4" },
		"service gone": func(b *answers) { delete(b.Latencies, "s") },
		"other one":    func(b *answers) { b.Latencies = map[string][]float64{"t": b.Latencies["s"]} },
		"count":        func(b *answers) { b.Latencies["s"][0] = 11 },
		"errors":       func(b *answers) { b.Latencies["s"][1] = 0 },
		"quantile":     func(b *answers) { b.Latencies["s"][4] = 313 },
	} {
		if a.differ(copied(change)) == nil {
			t.Errorf("%s: no difference", name)
		}
	}
	if empty := (answers{}); empty.differ(empty) == nil {
		t.Error("searches that find nothing compare nothing")
	}
}

// The same traces in every process, and no two alike.
func TestTrafficRepeats(t *testing.T) {
	a, err := newTraffic()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newTraffic()
	if err != nil {
		t.Fatal(err)
	}
	a.batch(0)
	first := normal(t, only(a.batch(3), 3*tracesPerBatch+1))
	if second := normal(t, only(b.batch(3), 3*tracesPerBatch+1)); first != second {
		t.Errorf("%s\nis not\n%s", first, second)
	}
	ids := map[string]bool{}
	for n := range 2 {
		for _, rs := range a.batch(n).ResourceSpans().All() {
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				ids[s.TraceID().String()+s.SpanID().String()] = true
			}
		}
	}
	if len(ids) != 2*batchSpans {
		t.Errorf("%d spans of %d are alike", 2*batchSpans-len(ids), 2*batchSpans)
	}
}

// A table has a cell for each engine in each line.
func TestTable(t *testing.T) {
	c := &comparison{}
	for i := range candidates {
		c.engines = append(c.engines, &candidates[i])
	}
	r := newResult(c, 100)
	for i := range r.Engines {
		r.Engines[i].Rounds = []measured{{Rate: float64(1000 * (i + 1))}, {Rate: float64(1000*(i+1) + 2)}}
	}
	r.Engines[1].Killed = killed{Lost: 3, Partial: 1, Torn: true}
	for _, l := range r.finish().Table {
		if len(l.Cells) != len(candidates) {
			t.Errorf("%s has %d cells", l.What, len(l.Cells))
		}
	}
	text := r.table()
	for _, want := range []string{"2001.0 (2000.0–2002.0, n=2)", "3 traces lost, 1 partly, a torn batch", "fewer than 6 rounds"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	back := &result{}
	data, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(data, back)
	}
	if err != nil || !reflect.DeepEqual(r, back) {
		t.Errorf("%+v, %v", back, err)
	}
}
