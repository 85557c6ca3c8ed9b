package adaptive

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The property that the budget promises: in no window of 10 s (or 20 traces)
// more than it allows, whatever comes. Windows that end with a trace suffice.
func TestBudgetOfTracesIsNeverExceeded(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   float64
		traffic func(second int) int // requests in that second
	}{
		{"steady", 50, func(int) int { return 1000 }},
		{"surges", 50, func(s int) int { return 20 + 4000*(s/7%2) }},
		{"one second", 20, func(s int) int { return 5000 * (1 - min(s%30, 1)) }},
		{"small", 0.5, func(int) int { return 300 }},
		{"rising", 100, func(s int) int { return 40 * s }},
	} {
		cfg := DefaultConfig()
		cfg.BaseRate, cfg.Budget.TracesPerSecond = 0.5, c.limit
		r := newRig(t, cfg, WithRoutes(0), WithRules(Always(named("POST /pay")), Base(named("GET /rare"), 1)))
		var kept []time.Time
		for second := range 90 {
			n := c.traffic(second)
			for i := range n {
				r.now = r.started.Add(time.Duration(second)*time.Second + time.Duration(i)*time.Second/time.Duration(n))
				name := [...]string{"GET /", "GET /a", "GET /b", "GET /rare", "POST /pay"}[r.rnd.IntN(5)]
				if yes(r.ask(name)) {
					kept = append(kept, r.now)
				}
				r.observe(name, r.rnd.IntN(100) == 0, time.Duration(r.rnd.IntN(2000))*time.Millisecond)
			}
			r.now = r.started.Add(time.Duration(second+1) * time.Second)
			r.step(false)
		}
		for _, n := range []float64{1, 1.5, 2, 3, 5, 8} {
			length := n * max(10, 20/c.limit)
			first := 0
			for last := range kept { // a window closed on both sides
				for kept[last].Sub(kept[first]).Seconds() > length {
					first++
				}
				require.LessOrEqual(t, float64(last-first+1), length*c.limit, "%s: traces in %v s with a budget of %v/s", c.name, length, c.limit)
			}
		}
		d := r.State().Decisions
		if d.Sampled != uint64(len(kept)) || d.Capped == 0 {
			t.Errorf("%s: %+v, kept %d; the test wants the cap to act", c.name, d, len(kept))
		}
	}
}

// With steady traffic the factor, not the cap, keeps the budget, and most of
// the budget is used.
func TestBudgetIsKeptByRates(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BaseRate, cfg.Budget.TracesPerSecond = 0.5, 100
	r := newRig(t, cfg, WithRoutes(0))
	r.observe("GET /bad", true, ok)
	r.observe("GET /good", false, ok)
	var before Decisions
	for second := range 100 {
		if second == 60 {
			before = r.State().Decisions
		}
		for i := range 1000 {
			r.now = r.now.Add(time.Millisecond)
			name := "GET /good"
			if i%10 == 0 {
				name = "GET /bad"
			}
			r.ask(name)
			r.observe(name, name == "GET /bad", ok)
		}
		r.step(false)
	}
	st := r.State()
	sampled, capped := st.Decisions.Sampled-before.Sampled, st.Decisions.Capped-before.Capped
	if sampled < 3200 || sampled > 4000 { // 40 s; aims at 90%
		t.Errorf("%d traces in 40 s with a budget of 4000", sampled)
	}
	if capped > sampled/100 {
		t.Errorf("the cap dropped %d, and let %d pass: the rates should have done it", capped, sampled)
	}
	// Demand: 900/s at 0.5 and 100/s at 1. One factor for all.
	b := st.Budget
	if b.LimitedBy != "traces" || math.Abs(b.Demand-550) > 1 || math.Abs(b.Factor-90.25/550) > 0.01*b.Factor {
		t.Errorf("budget: %+v", b)
	}
	if good, bad := r.RateOf("GET /good"), r.RateOf("GET /bad"); !close4(bad, 2*good) {
		t.Errorf("rates %v and %v: want the proportion that they have without a budget, 1:2", good, bad)
	}
}

// The budget wins over the floor, and a budget that is taken away is gone.
func TestBudgetAndFloor(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Budget.TracesPerSecond = 1
	r := newRig(t, cfg)
	for range 5 {
		for range 10_000 {
			r.now = r.now.Add(100 * time.Microsecond)
			r.ask("GET /")
		}
		r.step(false)
	}
	if got := r.Rate(); got >= cfg.MinRate || got <= 0 {
		t.Errorf("rate %v with 10000 requests/s and 1 trace/s", got)
	}
	cfg.Budget = Budget{}
	require.NoError(t, r.Set(cfg))
	r.wantRate(0.05)
}

// What Always rules ask for is taken off before the factor is found.
func TestBudgetOfAlways(t *testing.T) {
	b := newBudgetControl()
	for _, c := range []struct{ limit, always, others, want float64 }{
		{100, 0, 90, 1},
		{100, 0, 180.5, 0.5},
		{100, 45.125, 90.25, 0.5},
		{100, 200, 10, 0},
		{100, 0, 0, 1},
	} {
		b.planTraces(c.limit, c.always, c.others)
		if math.Abs(b.factor()-c.want) > 1e-9 {
			t.Errorf("%+v: factor %v", c, b.factor())
		}
	}
}

// A process whose use grows with what is sampled.
func TestFeedbackConverges(t *testing.T) {
	const limit = 1.0
	for _, c := range []struct {
		name      string
		own, cost float64 // use of the service, and of tracing at factor 1
		low, high float64 // use in the end
	}{
		{"fits", 0.5, 0.3, 0.8, 0.8},
		{"tracing is too much", 0.5, 2, 0.8, 1},
		{"tight", 0.95, 0.5, 0.95, 1},
		{"hopeless", 1.5, 1, 1.5, 1.5 + smallest},
	} {
		f := 1.0
		var above int
		for beat := range 400 {
			use := c.own + c.cost*f
			if beat > 200 && use > limit {
				above++
			}
			f = feedback(f, use/limit)
		}
		if use := c.own + c.cost*f; use < c.low || use > c.high {
			t.Errorf("%s: use is %v in the end, want %v to %v", c.name, use, c.low, c.high)
		}
		if c.own < 0.95 && above > 0 {
			t.Errorf("%s: above the limit in %d of the last 200 beats", c.name, above)
		}
	}
}

func TestCPULimit(t *testing.T) {
	if !cpuKnown {
		t.Skip("needs getrusage")
	}
	cfg := DefaultConfig()
	cfg.Budget.CPUCores = 0.5
	r := newRig(t, cfg)
	var used time.Duration
	r.budget.readCPU = func() (time.Duration, bool) { return used, true }
	step := func(cores float64) BudgetState {
		used += time.Duration(cores * float64(time.Second))
		r.wait(time.Second)
		return r.State().Budget
	}
	step(10) // what came before the limit does not count
	r.wantRate(0.05)
	if b := step(0.4); b.Factor != 1 || b.Cores != 0.4 || b.LimitedBy != "none" {
		t.Errorf("below the limit: %+v", b)
	}
	if b := step(1); b.Factor != 0.5 || b.LimitedBy != "cpu" {
		t.Errorf("above the limit: %+v", b)
	}
	r.wantRate(0.025)
	if b := step(0.48); b.Factor != 0.5 {
		t.Errorf("just below the limit: %+v", b)
	}
	if b := step(0.3); math.Abs(b.Factor-0.55) > 1e-9 {
		t.Errorf("room again: %+v", b)
	}
}

// The real reading rises while the process works.
func TestCPUTime(t *testing.T) {
	first, ok := cpuTime()
	require.Equal(t, cpuKnown, ok)
	if !ok {
		return
	}
	deadline := time.Now().Add(time.Minute)
	for x := 1.0; ; x = math.Sqrt(x + 1) {
		if now, _ := cpuTime(); now > first {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the process's CPU time stays at %v (%v)", first, x)
		}
	}
}

func TestP99Limit(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LatencyThreshold = time.Hour
	cfg.Budget.P99 = 100 * time.Millisecond
	r := newRig(t, cfg)
	second := func(n int, d time.Duration) BudgetState {
		for range n {
			r.observe("", false, d)
		}
		r.wait(time.Second)
		return r.State().Budget
	}
	second(1000, time.Second) // before the first look
	if b := second(1000, ok); b.Factor != 1 {
		t.Errorf("fast: %+v", b)
	}
	if b := second(99, time.Second); b.Factor != 1 {
		t.Errorf("too few to tell: %+v", b)
	}
	if b := second(1, time.Second); b.Factor != 0.5 || b.LimitedBy != "p99" || b.P99MS < 750 || b.P99MS > 1250 {
		t.Errorf("slow: %+v", b)
	}
	if b := second(100, ok); math.Abs(b.Factor-0.55) > 1e-9 {
		t.Errorf("fast again: %+v", b)
	}
}

func TestPressure(t *testing.T) {
	full := 0.0
	cfg := DefaultConfig()
	cfg.BaseRate = 0.4
	r := newRig(t, cfg, WithPressure(func() float64 { return full }))
	for _, c := range []struct{ told, polled, want float64 }{
		{0, 0, 0.4}, {0.5, 0, 0.2}, {0.5, 0.75, 0.1}, {0, 0.75, 0.1}, {0, 0, 0.4},
		{1, 0, 0.01}, {0, 7, 0.01}, {-1, math.NaN(), 0.4},
	} {
		full = c.polled
		r.SetPressure(c.told)
		r.wait(time.Second)
		r.wantRate(c.want)
	}
	r.SetPressure(0.5)
	r.wantRate(0.2) // at once
	r.SetPressure(math.NaN())
	r.wantRate(0.2)
}
