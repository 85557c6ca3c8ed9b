package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-trace/tare/agent/config"
)

// weighed is a host whose requests cost so many CPU seconds each.
type weighed struct {
	requests, whatever, sampled, idle float64
	noise                             float64 // of each measurement, up or down
	threshold                         atomic.Uint64
}

func (h *weighed) set(threshold uint64) error { h.threshold.Store(threshold); return nil }

func (h *weighed) rate() float64 { return config.Probability(h.threshold.Load()) }

func (h *weighed) spends() spends {
	return spends{h.idle, h.whatever * h.requests, h.sampled * h.requests * h.rate(), h.requests}
}

func (h *weighed) measure(r *rand.Rand) spends {
	s, n := h.spends(), func() float64 { return 1 + h.noise*(2*r.Float64()-1) }
	return spends{s.idle * n(), s.whatever * n(), s.sampled * n(), s.requests}
}

func budgetOf(t *testing.T, h *weighed, b config.Budget, sampler float64, log *bytes.Buffer) *budget {
	t.Helper()
	x := newBudget(b, config.ThresholdOf(sampler), h.set, nil, slog.New(slog.NewTextHandler(log, nil)))
	x.cpus = 2
	h.threshold.Store(x.threshold())
	return x
}

// The load rises and falls by ten: three seconds later tracing costs no more than it may,
// and soon after that it uses what it may; the rate at most doubles in a second, and stays
// between the floor and the sampler's.
func TestBudgetIsKept(t *testing.T) {
	const sampler = 0.8
	for name, c := range map[string]struct {
		budget config.Budget
		noise  float64
	}{
		"a share":            {config.Budget{Share: 0.01, Floor: 0.0001}, 0},
		"a share, noise":     {config.Budget{Share: 0.01, Floor: 0.0001}, 0.2},
		"per request":        {config.Budget{PerRequest: 5 * time.Microsecond, Floor: 0.0001}, 0},
		"per request, noise": {config.Budget{PerRequest: 5 * time.Microsecond, Floor: 0.0001}, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			h := &weighed{whatever: 1.5e-6, sampled: 12e-6, idle: 0.001, noise: c.noise}
			var log bytes.Buffer
			b := budgetOf(t, h, c.budget, sampler, &log)
			for _, h.requests = range []float64{200, 2000, 200, 20, 200, 2000, 8000, 800, 2} {
				sum := 0.0
				for second := range 60 {
					was := h.rate()
					if err := b.step(h.measure(r)); err != nil {
						t.Fatal(err)
					}
					rate := h.rate()
					may, spent := account(c.budget, 2, h.spends())
					if rate > budgetRise*was*1.0001 || rate > sampler*1.0001 || rate < c.budget.Floor*0.9999 {
						t.Fatalf("%v requests/s, second %d: the rate went from %v to %v", h.requests, second, was, rate)
					}
					if second > 3 && spent > may*(1+c.noise) {
						t.Errorf("%v requests/s, second %d: %v of %v CPUs at the rate %v", h.requests, second, spent, may, rate)
					}
					if second >= 30 {
						sum += spent
					}
					if second == 59 {
						mean := sum / 30
						if mean > may {
							t.Errorf("%v requests/s: %v of %v CPUs on average", h.requests, mean, may)
						}
						if mean < may/2 && rate < sampler*0.999 {
							t.Errorf("%v requests/s: %v of %v CPUs at the rate %v: more could be sampled", h.requests, mean, may, rate)
						}
					}
				}
			}
			if log.Len() > 0 {
				t.Errorf("%s", &log)
			}
		})
	}
}

// What costs too much even at the floor is said once, at /healthz too, and taken back.
func TestBudgetIsTooSmall(t *testing.T) {
	h := &weighed{whatever: 1.5e-6, sampled: 12e-6, requests: 20000}
	var log bytes.Buffer
	b := budgetOf(t, h, config.Budget{Share: 0.01, Floor: 0.001}, 1, &log)
	steps := func() {
		for range 30 {
			if err := b.step(h.spends()); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps()
	if n := strings.Count(log.String(), "exceeds its budget"); n != 1 || math.Abs(h.rate()-0.001) > 1e-9 || !strings.Contains(b.String(), "1%") {
		t.Errorf("the rate is %v, %q, %s", h.rate(), b, &log)
	}
	h.requests = 100
	steps()
	if !strings.Contains(log.String(), "within its budget again") || b.String() != "" || h.rate() < 0.9 {
		t.Errorf("the rate is %v, %q, %s", h.rate(), b, &log)
	}
}

// Without a budget the rate is the sampler's; a reload changes both, and a sampler that
// samples nothing stays with that.
func TestBudgetIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &weighed{whatever: 1.5e-6, sampled: 12e-6, requests: 2000, idle: 0.001}
		var log bytes.Buffer
		b := budgetOf(t, h, config.Budget{Floor: 0.0001}, 0.5, &log)
		asked := 0
		b.measure = func(context.Context) (spends, error) { asked++; return h.spends(), nil }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.run(ctx) }()
		wants := func(what string, rate float64, pause time.Duration) {
			t.Helper()
			time.Sleep(pause)
			synctest.Wait()
			if math.Abs(h.rate()-rate) > 1e-9 {
				t.Errorf("%s: the rate is %v, want %v", what, h.rate(), rate)
			}
		}
		configure := func(c config.Budget, sampler float64) {
			if err := b.configure(c, config.ThresholdOf(sampler)); err != nil {
				t.Fatal(err)
			}
		}
		wants("no budget", 0.5, time.Minute)
		if asked > 0 {
			t.Error("without a budget it was measured")
		}
		configure(config.Budget{Share: 1, Floor: 0.0001}, 0.5)
		wants("a budget, at first", budgetBegin, 0)
		wants("a large one", 0.5, time.Minute)
		configure(config.Budget{Share: 1, Floor: 0.0001}, 0.25)
		wants("another sampler", 0.25, 0)
		configure(config.Budget{Share: 1, Floor: 0.0001}, 0)
		wants("one that samples nothing", 0, time.Minute)
		configure(config.Budget{Floor: 0.0001}, 1)
		wants("no budget any more", 1, time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The share of requests that are remembered gives way before the sampling rate does, and comes back when there is room.
func TestBudgetOfRetro(t *testing.T) {
	for _, rate := range []float64{0.01, 0} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) { budgetOfRetro(t, rate) })
	}
}

func budgetOfRetro(t *testing.T, rate float64) {
	t.Helper()
	const most = 0.8
	var log bytes.Buffer
	h := &weighed{idle: 0.001, sampled: 12e-6}
	b := budgetOf(t, h, config.Budget{Share: 0.01, Floor: 0.0001}, rate, &log)
	share := most
	b.retro = &retroShare{most: most, share: most, set: func(threshold uint64) error {
		share = config.Probability(threshold)
		return nil
	}}
	for _, load := range []struct{ requests, shares, rates float64 }{ // what is left after a while
		{100, most, rate}, {8000, 0.2, rate}, {100, most, rate}, {40000, 0, rate / 10}, {100, most, rate},
	} {
		h.requests = load.requests
		for range 60 {
			h.whatever = 0.3e-6 + 6e-6*share
			if err := b.step(h.spends()); err != nil {
				t.Fatal(err)
			}
		}
		h.whatever = 0.3e-6 + 6e-6*share
		may, spent := account(b.cfg, 2, h.spends())
		t.Logf("%v requests/s: %v of %v CPUs, share %v, rate %v", load.requests, spent, may, share, h.rate())
		if spent > may || share < load.shares*0.999 || h.rate() < load.rates*0.999 || h.rate() > rate*1.001 {
			t.Errorf("%v requests/s: %v of %v CPUs, share %v, rate %v", load.requests, spent, may, share, h.rate())
		}
	}
}
