package store

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Points against what was written, before and after merging: each is of the spans in
// the window before it, its end included.
func TestSeries(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	const n = 300
	for i := range n / 10 {
		write(t, s, shop(i*10, 10))
	}
	start := time.Unix(0, int64(hour0)).Add(100 * time.Millisecond)
	for name, c := range map[string]struct {
		q     SeriesQuery
		match func(service string, x ptrace.Span) bool
	}{
		"server spans": {SeriesQuery{Services: []string{"gateway", "cart"}, Kinds: []int32{2}, Quantile: .5},
			func(service string, x ptrace.Span) bool {
				return x.Kind() == ptrace.SpanKindServer && (service == "gateway" || service == "cart")
			}},
		"by operation": {SeriesQuery{Services: []string{"stock"}, ByOperation: true, Quantile: .95},
			func(service string, _ ptrace.Span) bool { return service == "stock" }},
		"with an attribute": {SeriesQuery{Services: []string{"pay"}, Quantile: 1, Conditions: []Condition{{Key: "db.system.name", Value: "redis"}}},
			func(service string, x ptrace.Span) bool {
				_, ok := x.Attributes().Get("db.system.name")
				return service == "pay" && ok
			}},
	} {
		q := c.q
		q.Start, q.End, q.Step, q.Window = start, start.Add(100*time.Millisecond), 10*time.Millisecond, 25*time.Millisecond
		type key struct{ service, operation string }
		spans := map[key][]ptrace.Span{}
		for _, rs := range shop(0, n).ResourceSpans().All() {
			service, _ := rs.Resource().Attributes().Get("service.name")
			for _, x := range rs.ScopeSpans().At(0).Spans().All() {
				if k := (key{service: service.Str()}); c.match(k.service, x) {
					if q.ByOperation {
						k.operation = x.Name()
					}
					spans[k] = append(spans[k], x)
				}
			}
		}
		check := func() {
			t.Helper()
			got, err := s.Series(t.Context(), q)
			if err != nil || len(got) != len(spans) {
				t.Fatalf("%s: %d series, want %d: %v", name, len(got), len(spans), err)
			}
			for _, r := range got {
				if len(r.Points) != 11 {
					t.Fatalf("%s: %d points", name, len(r.Points))
				}
				for i, p := range r.Points {
					end := start.Add(time.Duration(i) * q.Step)
					var durations []uint64
					failed := 0.0
					for _, x := range spans[key{r.Service, r.Operation}] {
						at := x.StartTimestamp().AsTime()
						if at.After(end.Add(-30*time.Millisecond)) && !at.After(end) { // 25 ms are three steps
							durations = append(durations, uint64(x.EndTimestamp()-x.StartTimestamp()))
							if x.Status().Code() == ptrace.StatusCodeError {
								failed++
							}
						}
					}
					slices.Sort(durations)
					// ot=th:c: each stands for four.
					want, rank := float64(4*len(durations)), max(int(math.Ceil(q.Quantile*float64(len(durations)))), 1)
					if !p.Time.Equal(end) || p.Requests != want || p.Errors != 4*failed || math.Abs(p.Rate-want/.03) > 1e-6 {
						t.Fatalf("%s: %v: %+v, want %g requests, %g failed", name, end, p, want, 4*failed)
					}
					if len(durations) > 0 && !within(p.Duration, durations[rank-1]) {
						t.Errorf("%s: %v: %v, want %d", name, end, p.Duration, durations[rank-1])
					}
				}
			}
		}
		check()
		if err := s.merge(s.list()); err != nil {
			t.Fatal(err)
		}
		check()
	}
	for name, q := range map[string]SeriesQuery{
		"no service":      {Start: start, End: start, Step: 1, Window: 1},
		"no step":         {Services: []string{"a"}, Start: start, End: start, Window: 1},
		"too many points": {Services: []string{"a"}, Start: start, End: start.Add(time.Hour), Step: 1, Window: 1},
		"backwards":       {Services: []string{"a"}, Start: start, End: start.Add(-1), Step: 1, Window: 1},
		"too long":        {Services: []string{"a"}, Start: start, End: start, Step: math.MaxInt64, Window: math.MaxInt64},
	} {
		if _, err := s.Series(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
