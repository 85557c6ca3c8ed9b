package store

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// tally is what is known of a trace of shop.
type tally struct {
	id         pcommon.TraceID
	start, end uint64
	spans      int
	failed     bool
	matches    bool
}

func tallies(td ptrace.Traces, match func(service string, x ptrace.Span) bool) []tally {
	all := map[pcommon.TraceID]*tally{}
	for _, rs := range td.ResourceSpans().All() {
		service, _ := rs.Resource().Attributes().Get("service.name")
		for _, x := range rs.ScopeSpans().At(0).Spans().All() {
			r := all[x.TraceID()]
			if r == nil {
				r = &tally{id: x.TraceID(), start: 1<<64 - 1}
				all[x.TraceID()] = r
			}
			r.start, r.end = min(r.start, uint64(x.StartTimestamp())), max(r.end, uint64(x.EndTimestamp()))
			r.spans++
			r.failed = r.failed || x.Status().Code() == ptrace.StatusCodeError
			r.matches = r.matches || match(service.Str(), x)
		}
	}
	var list []tally
	for _, r := range all {
		if r.matches {
			list = append(list, *r)
		}
	}
	return list
}

// Counts, cells and orders against what was written, before and after merging.
func TestOverviewAndOrders(t *testing.T) {
	const n = 600
	td := shop(0, n)
	// Traces of different sizes.
	for _, rs := range td.ResourceSpans().All() {
		k := 0
		rs.ScopeSpans().At(0).Spans().RemoveIf(func(x ptrace.Span) bool {
			k++
			return !x.ParentSpanID().IsEmpty() && k%7 == int(x.TraceID()[15])%5
		})
	}
	s := open(t, Options{NoSync: true, byHand: true})
	for from := range n / 10 {
		part := ptrace.NewTraces()
		td.CopyTo(part)
		part.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().At(0).Spans().RemoveIf(func(x ptrace.Span) bool {
				id := x.TraceID()
				return (int(id[14])<<8+int(id[15])-1)/10 != from
			})
			return rs.ScopeSpans().At(0).Spans().Len() == 0
		})
		write(t, s, part)
	}
	at := func(ms int) time.Time { return time.Unix(0, int64(hour0)).Add(time.Duration(ms) * time.Millisecond) }
	inside := func(x ptrace.Span, from, to int) bool {
		start := x.StartTimestamp().AsTime()
		return !start.Before(at(from)) && start.Before(at(to))
	}
	for name, c := range map[string]struct {
		q     Query
		match func(service string, x ptrace.Span) bool
	}{
		"all":       {Query{}, func(string, ptrace.Span) bool { return true }},
		"all, time": {Query{Start: at(100), End: at(300)}, func(_ string, x ptrace.Span) bool { return inside(x, 100, 300) }},
		"service": {Query{Service: "cart", Kind: 3, Start: at(0), End: at(500)},
			func(s string, x ptrace.Span) bool { return s == "cart" && x.Kind() == 3 && inside(x, 0, 500) }},
		"errors":    {Query{Status: Failed}, func(_ string, x ptrace.Span) bool { return x.Status().Code() == ptrace.StatusCodeError }},
		"durations": {Query{MinDuration: 9 * time.Millisecond}, func(_ string, x ptrace.Span) bool { return x.EndTimestamp()-x.StartTimestamp() >= 9e6 }},
		"attribute": {Query{Conditions: []Condition{{Key: "url.path", Op: Like, Value: "/item/1*"}}}, func(_ string, x ptrace.Span) bool {
			v, _ := x.Attributes().Get("url.path")
			return v.Str()[:7] == "/item/1"
		}},
		"state": {Query{State: "complete"}, func(string, ptrace.Span) bool { return true }},
		"none":  {Query{State: "incomplete"}, func(string, ptrace.Span) bool { return false }},
	} {
		want := tallies(td, c.match)
		check := func() {
			t.Helper()
			o, err := s.Overview(t.Context(), c.q, 20)
			if err != nil {
				t.Fatal(err)
			}
			failed := uint64(0)
			cells := map[[2]int]Cell{}
			for _, x := range o.Cells {
				cells[[2]int{x.Column, int(x.Low)}] = x
			}
			for _, w := range want {
				if w.failed {
					failed++
				}
				if o.Traces == 0 {
					break
				}
				column := 0
				if w.start > uint64(o.Start.UnixNano()) {
					column = int((w.start - uint64(o.Start.UnixNano())) / (uint64(o.End.Sub(o.Start)) / 20))
				}
				low := int(heat.Start(heat.Of(w.end - w.start)))
				x, ok := cells[[2]int{column, low}]
				if !ok || x.Traces == 0 || w.failed && x.Errors == 0 || uint64(x.High) < w.end-w.start {
					t.Fatalf("%s: a trace of %d ns at %d is not in %+v", name, w.end-w.start, w.start, x)
				}
				x.Traces--
				if w.failed {
					x.Errors--
				}
				cells[[2]int{column, low}] = x
			}
			for _, x := range cells {
				if x.Traces != 0 || x.Errors != 0 {
					t.Errorf("%s: too many in a cell: %+v", name, x)
				}
			}
			// ot=th:c: each stands for four.
			if o.Traces != uint64(len(want)) || o.Errors != failed || o.Weight != float64(4*len(want)) || o.Truncated {
				t.Errorf("%s: %d traces, %d failed, weight %g, truncated %v; want %d, %d", name, o.Traces, o.Errors, o.Weight, o.Truncated, len(want), failed)
			}
			for _, order := range []Order{ByDuration, BySpans} {
				by := func(w tally) uint64 {
					if order == BySpans {
						return uint64(w.spans)
					}
					return w.end - w.start
				}
				slices.SortFunc(want, func(a, b tally) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(b.start, a.start)) })
				q := c.q
				q.Sort, q.Limit = order, 25
				r, err := s.Search(t.Context(), q)
				if err != nil || len(r.Traces) != min(25, len(want)) || r.Next != "" || r.Truncated {
					t.Fatalf("%s, order %d: %d traces, %v", name, order, len(r.Traces), err)
				}
				for i, x := range r.Traces {
					if x.TraceID != want[i].id || x.Spans != want[i].spans || uint64(x.Duration) != want[i].end-want[i].start {
						t.Fatalf("%s, order %d: at %d is %v of %v and %d spans, want %+v", name, order, i, x.TraceID, x.Duration, x.Spans, want[i])
					}
				}
			}
		}
		check()
		if name == "none" {
			for merged := true; merged; {
				var err error
				if merged, err = s.mergeOnce(); err != nil {
					t.Fatal(err)
				}
			}
			check()
		}
	}
	for _, q := range []Query{{Sort: 3}, {Sort: BySpans, After: "x"}} {
		if _, err := s.Search(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, columns := range []int{0, 501} {
		if _, err := s.Overview(t.Context(), Query{}, columns); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d columns: %v", columns, err)
		}
	}
	if o, err := s.Overview(t.Context(), Query{End: time.Unix(0, 1)}, 10); err != nil || o.Traces != 0 {
		t.Errorf("before everything: %+v %v", o, err)
	}
}

// A trace that came in two writes is one in an order, as long as both together.
func TestOrderOfATraceInTwoWrites(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	write(t, s, shop(0, 50))
	late := shop(7, 1)
	for _, rs := range late.ResourceSpans().All() {
		for _, x := range rs.ScopeSpans().At(0).Spans().All() {
			x.SetSpanID(pcommon.SpanID{1, x.SpanID()[0]})
			x.SetStartTimestamp(x.StartTimestamp() + 1e9)
			x.SetEndTimestamp(x.EndTimestamp() + 1e9)
		}
	}
	write(t, s, late)
	for _, order := range []Order{ByDuration, BySpans} {
		r, err := s.Search(t.Context(), Query{Sort: order, Limit: 30})
		if err != nil || len(r.Traces) != 30 || r.Traces[0].TraceID != traceID(8) || r.Traces[0].Spans != 20 || r.Traces[0].Duration < time.Second {
			t.Errorf("order %d: %+v %v", order, r.Traces, err)
		}
	}
}
