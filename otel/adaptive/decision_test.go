package adaptive

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/rule"
)

func yes(r sdktrace.SamplingResult) bool { return r.Decision == sdktrace.RecordAndSample }

func withRates(base float64) Config {
	c := DefaultConfig()
	c.BaseRate, c.MinRate = base, 0
	return c
}

// What a lower rate samples, a higher one does, too; th says the rate; counts
// can be scaled back although the rate changes.
func TestConsistentProbability(t *testing.T) {
	low, high := newRig(t, withRates(0.05)), newRig(t, withRates(0.05))
	high.observe("", true, time.Minute)
	high.wait(30 * time.Second) // 0.3
	const n = 50_000
	var scaled float64
	for range n {
		p := root(low.rnd, "GET /")
		l, h := low.ShouldSample(p), high.ShouldSample(p)
		if yes(l) && !yes(h) {
			t.Fatalf("%s is sampled by 0.05 but not by 0.3", p.TraceID)
		}
		for _, c := range []struct {
			res  sdktrace.SamplingResult
			rate float64
		}{{l, low.Rate()}, {h, high.Rate()}} {
			th, ok := consistent.ThresholdOf(c.res.Tracestate)
			if ok != yes(c.res) || (ok && th.Probability() != c.rate) {
				t.Fatalf("tracestate %q for decision %v at rate %v", c.res.Tracestate, c.res.Decision, c.rate)
			}
		}
		if yes(h) {
			th, _ := consistent.ThresholdOf(h.Tracestate)
			scaled += consistent.AdjustedCount(th)
		}
	}
	// A scaled count's deviation is sqrt(n (1-p)/p).
	assert.LessOrEqual(t, math.Abs(scaled-n), 5*math.Sqrt(n*0.7/0.3), "counts scale back to %v, want about %v", scaled, n)
}

func remote(id trace.TraceID, state string, flags trace.TraceFlags) context.Context {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: flags, TraceState: ts, Remote: true,
	}))
}

func TestFollowsParent(t *testing.T) {
	r := newRig(t, withRates(0.5))
	for range 100 {
		p := root(r.rnd, "GET /")
		p.ParentContext = remote(p.TraceID, "a=b", trace.FlagsSampled)
		if res := r.ShouldSample(p); !yes(res) || res.Tracestate.String() != "a=b" {
			t.Fatalf("sampled parent: %+v", res)
		}
		p.ParentContext = remote(p.TraceID, "a=b,ot=rv:00000000000000", 0)
		if res := r.ShouldSample(p); res.Decision != sdktrace.Drop || res.Tracestate.String() != "a=b,ot=rv:00000000000000" {
			t.Fatalf("unsampled parent: %+v", res)
		}
	}
	if d := r.State().Decisions; d.Total != 0 {
		t.Errorf("decisions of parents were counted: %+v", d)
	}
}

func TestWithoutParent(t *testing.T) {
	for _, c := range []struct {
		name, state string
		flags       trace.TraceFlags
		sampled     bool
	}{
		{"rv above", "a=b,ot=rv:ffffffffffffff", 0, true},
		{"rv below", "a=b,ot=rv:7fffffffffffff", trace.FlagsSampled, false},
		{"th of the parent goes", "a=b,ot=th:0;rv:00000000000001", trace.FlagsSampled, false},
	} {
		r := newRig(t, withRates(0.5), WithoutParent())
		p := root(r.rnd, "GET /")
		p.ParentContext = remote(p.TraceID, c.state, c.flags)
		res := r.ShouldSample(p)
		th, has := consistent.ThresholdOf(res.Tracestate)
		if yes(res) != c.sampled || has != c.sampled || res.Tracestate.Get("a") != "b" || (has && th.Probability() != 0.5) {
			t.Errorf("%s: decision %v, tracestate %q, want sampled: %v", c.name, res.Decision, res.Tracestate, c.sampled)
		}
		if rv, ok := consistent.RandomnessOf(res.Tracestate); !ok || rv.String() != c.state[len(c.state)-14:] {
			t.Errorf("%s: rv is gone from %q", c.name, res.Tracestate)
		}
	}
	// A local parent is followed all the same.
	r := newRig(t, withRates(0), WithoutParent())
	p := root(r.rnd, "child")
	p.ParentContext = trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: p.TraceID, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	assert.True(t, yes(r.ShouldSample(p)), "a local parent was not followed")
}

func TestRules(t *testing.T) {
	r := newRig(t, withRates(0.5), WithRules(
		Never(named("GET /health")),
		Always(named("POST /pay")),
		Base(rule.MustCompile(rule.Spec{Attributes: map[string]string{"tenant": "big"}}), 0.125),
		Never(named("GET /auth/**")),
	))
	assert.True(t, r.UsesAttributes(), "a rule reads attributes, and UsesAttributes is false")
	const n = 4000
	counts := map[string]int{}
	for range n {
		for _, name := range []string{"GET /health", "POST /pay", "GET /", "GET /auth/login"} {
			res := r.ask(name)
			if yes(res) {
				counts[name]++
			}
			if th, ok := consistent.ThresholdOf(res.Tracestate); name == "POST /pay" && (!ok || th != consistent.Always) {
				t.Fatalf("an Always rule says %q", res.Tracestate)
			}
		}
		p := root(r.rnd, "GET /")
		p.Attributes = []attribute.KeyValue{attribute.String("tenant", "big")}
		if yes(r.ShouldSample(p)) {
			counts["tenant"]++
		}
	}
	for name, want := range map[string]float64{"GET /health": 0, "GET /auth/login": 0, "POST /pay": 1, "GET /": 0.5, "tenant": 0.125} {
		got := float64(counts[name]) / n
		assert.InDelta(t, want, got, 5*math.Sqrt(want*(1-want)/n), "%s: share", name)
	}
	d := r.State().Decisions
	if d.Never != 2*n || d.Total != 5*n || d.Sampled != uint64(counts["POST /pay"]+counts["GET /"]+counts["tenant"]) {
		t.Errorf("decisions: %+v", d)
	}
}

// Without an Always rule, what no rate samples is not looked at: it counts as
// unsampled, and rules decide about the rest.
func TestNeverRuleBelowAllRates(t *testing.T) {
	r := newRig(t, withRates(0.25), WithRules(Never(named("GET /health"))))
	const n = 10_000
	for range n {
		require.False(t, yes(r.ask("GET /health")), "a Never rule was overruled")
	}
	// The highest rate is the one with both boosts: 1.
	if d := r.State().Decisions; d.Never != n || d.Total != n {
		t.Errorf("decisions: %+v", d)
	}
}

func TestRoutesAreIsolated(t *testing.T) {
	for _, byAttribute := range []bool{false, true} {
		opts := []Option{WithRoutes(3)}
		if byAttribute {
			opts = append(opts, WithRouteAttribute("http.route"))
		}
		r := newRig(t, withRates(0.05), opts...)
		assert.Equal(t, byAttribute, r.UsesAttributes(), "UsesAttributes")
		for range 100 {
			r.observe("/a", false, ok)
			r.observe("/b", true, ok)
			r.observe("/c", false, time.Minute)
			r.observe("/d", true, time.Minute) // no room: shares
			r.observe("/e", false, ok)
		}
		r.wait(30 * time.Second)
		const n = 20_000
		for route, want := range map[string]float64{"/a": 0.05, "/b": 0.15, "/c": 0.1, "/d": 0.3, "/e": 0.3, "/new": 0.3} {
			if got := r.RateOf(route); !close4(got, want) {
				t.Errorf("%s: rate %v, want %v", route, got, want)
			}
			sampled := 0
			for range n {
				p := root(r.rnd, route)
				if byAttribute {
					p.Name, p.Attributes = "GET", []attribute.KeyValue{attribute.String("http.route", route)}
				}
				if yes(r.ShouldSample(p)) {
					sampled++
				}
			}
			assert.LessOrEqual(t, math.Abs(float64(sampled)/n-want), 5*math.Sqrt(want*(1-want)/n), "%s: %d of %d sampled, want a share of %v", route, sampled, n, want)
		}
		if st := r.State(); len(st.Routes) != 3 || st.Observations.Total != 500 || st.Routes[1].Observations.Failed != 100 {
			t.Errorf("state: %+v", st)
		}
	}
}

// When all places are taken, routes that nobody asks for any more make room.
func TestRoutesAreForgotten(t *testing.T) {
	r := newRig(t, DefaultConfig(), WithRoutes(2))
	r.observe("/scan/1", false, ok)
	r.observe("/real", false, ok)
	for i := range idleIntervals + 1 {
		if i == idleIntervals {
			r.observe("/late", true, ok) // no room
		}
		r.observe("/real", false, ok)
		r.wait(30 * time.Second)
	}
	r.observe("/late", false, ok)
	r.wait(30 * time.Second)
	st := r.State()
	if len(st.Routes) != 2 || st.Routes[0].Route != "/late" || st.Routes[1].Route != "/real" {
		t.Errorf("routes: %+v", st.Routes)
	}
	assert.Equal(t, uint64(2+idleIntervals+1+2), st.Observations.Total, "observations")
}

func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	limited := withRates(0.5)
	limited.Budget.TracesPerSecond = 1000
	for name, r := range map[string]*rig{
		"default": newRig(t, withRates(0.5)),
		"routes":  newRig(t, withRates(0.5), WithRoutes(0)),
		"budget":  newRig(t, limited, WithRoutes(0), WithRules(Never(named("GET /health*")), Base(named("GET /b*"), 0.3))),
	} {
		r.observe("GET /a", true, ok)
		r.observe("GET /b", false, ok)
		r.wait(30 * time.Second)
		p := root(r.rnd, "GET /a")
		if n := testing.AllocsPerRun(1000, func() {
			p.TraceID = traceID(r.rnd)
			r.ShouldSample(p)
		}); n != 0 {
			t.Errorf("%s: a decision allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { r.observe("GET /a", true, ok) }); n != 0 {
			t.Errorf("%s: an observation allocates %v times", name, n)
		}
		p.ParentContext = remote(p.TraceID, "a=b", trace.FlagsSampled)
		if n := testing.AllocsPerRun(1000, func() { r.ShouldSample(p) }); n != 0 {
			t.Errorf("%s: to follow a parent allocates %v times", name, n)
		}
	}
}
