package store

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store/weight"
)

const onePercent = "ot=th:fd70a3d70a3d71"

func eachSpanOf(td ptrace.Traces, f func(ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				f(s)
			}
		}
	}
}

// retro makes traces of shop that were kept retroactively: all failed, slow, and with a call that no other has. The
// reason is on the server span of cart.
func retro(from, n int, reason string) ptrace.Traces {
	td := shop(from, n)
	eachSpanOf(td, func(s ptrace.Span) {
		s.TraceState().FromRaw("")
		s.Attributes().PutBool(semconv.Retro, true)
		s.SetEndTimestamp(s.EndTimestamp() + pcommon.Timestamp(10*time.Second))
		switch s.Name() {
		case "GET /cart":
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Attributes().PutStr(semconv.RetroReason, reason)
		case "GET":
			s.Attributes().PutStr("peer.service", "fallback")
		}
	})
	return td
}

// estimates is all that a store estimates.
func estimates(t *testing.T, s *Store) map[string]any {
	t.Helper()
	ctx, from, to := context.Background(), time.Unix(0, int64(hour0)), time.Unix(0, int64(hour0)+int64(time.Hour))
	all := map[string]any{}
	add := func(name string, v any, err error) {
		t.Helper()
		require.NoError(t, err, name)
		all[name] = v
	}
	for _, service := range []string{"", "gateway", "cart"} {
		for _, byOperation := range []bool{false, true} {
			v, err := s.Latencies(ctx, from, to, service, byOperation)
			add(fmt.Sprint("latencies ", service, byOperation), v, err)
		}
	}
	m, err := s.Map(ctx, from, to)
	add("map", m, err)
	for _, conditions := range [][]Condition{nil, {{Key: "http.request.method", Op: Equal, Value: "GET"}}} {
		v, err := s.Series(ctx, SeriesQuery{Services: []string{"gateway", "cart", "stock", "pay"}, ByOperation: true, Start: from, End: to,
			Step: time.Minute, Window: time.Minute, Quantile: 0.99, Conditions: conditions})
		add(fmt.Sprint("series ", conditions), v, err)
	}
	o, err := s.Overview(ctx, Query{}, 10)
	add("overview", o.Weight, err)
	return all
}

// What is estimated of head-sampled traces is the same with traces among them that were kept retroactively: written
// together and apart, merged, and read again from the disk.
func TestRetroCountsInNoEstimate(t *testing.T) {
	heads := func(from, n int) ptrace.Traces {
		td := shop(from, n)
		eachSpanOf(td, func(s ptrace.Span) { s.TraceState().FromRaw(onePercent) })
		return td
	}
	plain := open(t, Options{NoSync: true, byHand: true})
	mixed := open(t, Options{NoSync: true, byHand: true})
	const batches = mergeCount
	for i := range batches {
		write(t, plain, heads(10*i, 10))
		td := retro(1000+10*i, 3, "error")
		heads(10*i, 10).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		retro(2000+10*i, 2, "slow").ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		write(t, mixed, td)
	}
	compare := func(when string) {
		t.Helper()
		assert.Equal(t, estimates(t, plain), estimates(t, mixed), when)
	}
	compare("as written")
	found, err := mixed.Latencies(context.Background(), time.Time{}, time.Time{}, "gateway", false)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.InDelta(t, 100*10*batches, found[0].Weight, 1e-3, "requests of gateway")
	assert.Less(t, found[0].Max, 10*time.Second)
	o, err := mixed.Overview(context.Background(), Query{}, 10)
	require.NoError(t, err)
	assert.EqualValues(t, (10+3+2)*batches, o.Traces, "all are shown")
	for _, s := range []*Store{plain, mixed} {
		more, err := s.mergeOnce()
		require.True(t, more)
		require.NoError(t, err)
	}
	compare("merged")
	require.NoError(t, mixed.Close())
	mixed = open(t, Options{Dir: mixed.opt.Dir, NoSync: true, byHand: true})
	compare("opened again")
}

// Traces are found by why they were kept, whichever of their spans says it, and whichever meets other conditions.
func TestSearchByRetro(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	write(t, s, shop(0, 20))
	write(t, s, retro(100, 10, "error"))
	write(t, s, retro(110, 2, "slow"))
	write(t, s, retro(120, 1, "of a later version"))
	sampled := retro(130, 1, "error")
	eachSpanOf(sampled, func(s ptrace.Span) { s.TraceState().FromRaw(onePercent) })
	write(t, s, sampled)
	check := func(ctx context.Context, want map[semconv.RetroSet]int) {
		t.Helper()
		for set, n := range want {
			q := Query{Retro: set, Service: "gateway", Operation: "GET /item/{id}"}
			for _, q.Sort = range []Order{ByTime, ByDuration, BySpans} {
				r, err := s.Search(ctx, q)
				require.NoError(t, err)
				assert.Len(t, r.Traces, n, "%s, order %d", set, q.Sort)
				first := q
				first.Limit = 1
				r1, err := s.Search(ctx, first)
				require.NoError(t, err)
				if n > 0 && assert.Len(t, r1.Traces, 1, "%s, order %d, the first", set, q.Sort) {
					assert.Equal(t, r.Traces[0], r1.Traces[0])
				}
				for _, x := range r.Traces {
					assert.Zero(t, x.Weight)
					assert.NotZero(t, x.Retro&set)
				}
			}
			o, err := s.Overview(ctx, q, 5)
			require.NoError(t, err)
			assert.EqualValues(t, n, o.Traces, "%s", set)
			assert.Zero(t, o.Weight)
		}
	}
	failed, slow := semconv.RetroSetOf("error"), semconv.RetroSetOf("slow")
	check(context.Background(), map[semconv.RetroSet]int{semconv.RetroKept: 13, failed: 10, slow: 2, failed | slow: 12, semconv.RetroSetOf("open"): 0})
	r, err := s.Search(context.Background(), Query{Limit: 100})
	require.NoError(t, err)
	reasons := map[string]int{}
	for _, x := range r.Traces {
		reasons[x.Retro.String()]++
	}
	assert.Equal(t, map[string]int{"": 21, "error": 10, "slow": 2, "unknown": 1}, reasons)

	// The reason tells of spans that a reader with a scope may not see.
	scoped := WithScope(context.Background(), &Scope{Services: []string{"gateway"}})
	check(scoped, map[semconv.RetroSet]int{semconv.RetroKept: 13, failed: 0, slow: 0})
	r, err = s.Search(scoped, Query{Retro: semconv.RetroKept})
	require.NoError(t, err)
	for _, x := range r.Traces {
		assert.Equal(t, "unknown", x.Retro.String())
	}
	r, err = s.Search(scoped, Query{Conditions: []Condition{{Key: semconv.RetroReason, Op: Like, Value: "*"}}})
	require.NoError(t, err)
	assert.Empty(t, r.Traces)
}

// A trace that came in several writes, the reason in one of them, is one; before it is merged, too.
func TestRetroOfSeveralWrites(t *testing.T) {
	s := open(t, Options{NoSync: true, byHand: true})
	const writes = mergeCount
	for i := range writes {
		td, n := retro(100, 5, "reset"), 0
		td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().At(0).Spans().RemoveIf(func(ptrace.Span) bool { n++; return n%writes != i })
			return rs.ScopeSpans().At(0).Spans().Len() == 0
		})
		write(t, s, td)
	}
	for _, when := range []string{"apart", "merged"} {
		for _, set := range []semconv.RetroSet{semconv.RetroKept, semconv.RetroSetOf("reset")} {
			found, err := s.Search(context.Background(), Query{Retro: set})
			require.NoError(t, err)
			assert.Len(t, found.Traces, 5, when)
			for _, x := range found.Traces {
				assert.Equal(t, 10, x.Spans)
				assert.Equal(t, "reset", x.Retro.String())
				assert.Zero(t, x.Weight)
			}
		}
		more, err := s.mergeOnce()
		require.NoError(t, err)
		require.Equal(t, when == "apart", more)
	}
}

func TestStoredWeights(t *testing.T) {
	for _, w := range []weight.Trace{{}, {Adjusted: 1}, {Adjusted: 100}, {Adjusted: 1 << 56}, {Retro: semconv.RetroKept}, {Retro: math.MaxUint16}} {
		if got := weightOf(storedWeight(w)); got != w {
			t.Errorf("%+v is read as %+v", w, got)
		}
	}
	// What is stored is not what counts.
	assert.Zero(t, storedWeight(weight.Trace{Retro: semconv.RetroSetOf("error")}))
	assert.Equal(t, 4., storedWeight(weight.Trace{Adjusted: 4, Retro: semconv.RetroKept}))
	// Earlier versions add it, where 0 would stand for 1.
	if old := storedWeight(weight.Trace{Retro: math.MaxUint16}); old == 0 || 1e9*old+1 != 1 {
		t.Errorf("an earlier version counts %v", old)
	}
}
