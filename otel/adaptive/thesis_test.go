package adaptive

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const ok = 10 * time.Millisecond

// The thesis's sampler (4.1.2, 4.4.4), interval by interval.
func TestThesisDefault(t *testing.T) {
	r := newRig(t, DefaultConfig())
	r.wantRate(0.05)
	for _, interval := range []struct {
		name           string
		good, bad, lag int
		want           float64
	}{
		{"quiet", 1000, 0, 0, 0.05},
		{"one error", 1000, 1, 0, 0.15},
		{"one slow", 1000, 0, 1, 0.10},
		{"both", 1000, 1, 1, 0.30},
		{"quiet again", 1000, 0, 0, 0.05},
		{"errors only", 0, 10, 0, 0.15},
		{"nobody came", 0, 0, 0, 0.05},
	} {
		before := r.Rate()
		for range interval.good {
			r.observe("", false, ok)
		}
		for range interval.bad {
			r.observe("", true, ok)
		}
		for range interval.lag {
			r.observe("", false, time.Second+1)
		}
		r.wait(30*time.Second - 1)
		assert.Equal(t, before, r.Rate(), "%s: the rate moved before the interval was over", interval.name)
		r.wait(1)
		if got := r.Rate(); !close4(got, interval.want) {
			t.Errorf("%s: rate %v, want %v", interval.name, got, interval.want)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		base, low, high, want, boosted float64
	}{
		{0.001, 0.01, 1, 0.01, 0.01}, // 0.001*6 is still below the floor
		{0, 0.01, 1, 0.01, 0.01},
		{0.3, 0.01, 1, 0.3, 1}, // 1.8
		{0.05, 0.01, 0.2, 0.05, 0.2},
		{0.05, 0.01, 0.05, 0.05, 0.05},
		{0, 0.01, 0, 0, 0}, // the maximum wins over the floor
		{0, 0, 1, 0, 0},
		{1, 0.01, 1, 1, 1},
	} {
		cfg := DefaultConfig()
		cfg.BaseRate, cfg.MinRate, cfg.MaxRate = c.base, c.low, c.high
		r := newRig(t, cfg)
		r.wantRate(c.want)
		r.observe("", true, time.Minute)
		r.wait(30 * time.Second)
		r.wantRate(c.boosted)
	}
}

// Exactly at the threshold is not above it.
func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		trigger Trigger
		slow    int // of 100 requests, 4 s long; the others 10 ms
		want    bool
	}{
		{TriggerAny, 0, false}, {TriggerAny, 1, true},
		{TriggerMean, 20, false}, {TriggerMean, 40, true}, // 0.8 s, 1.6 s
		{"p95", 4, false}, {"p95", 10, true},
		{"p50", 45, false}, {"p50", 60, true},
	} {
		cfg := DefaultConfig()
		cfg.LatencyTrigger = c.trigger
		r := newRig(t, cfg)
		r.observe("", false, time.Second)
		for i := range 100 {
			d := ok
			if i < c.slow {
				d = 4 * time.Second
			}
			r.observe("", false, d)
		}
		r.wait(30 * time.Second)
		assert.Equal(t, c.want, r.State().Boosts.Latency, "%s with %d%% slow: boost", c.trigger, c.slow)
	}
}

func TestErrorShare(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ErrorShare = 0.05
	for failed, want := range map[int]bool{0: false, 5: false, 6: true, 100: true} {
		r := newRig(t, cfg)
		for i := range 100 {
			r.observe("", i < failed, ok)
		}
		r.wait(30 * time.Second)
		assert.Equal(t, want, r.State().Boosts.Error, "%d%% failed: boost", failed)
	}
}

// The figure: with 1% errors at a base rate of 10%, a head sampler
// traces 10% of the failed requests, this one 30%, from the second interval on.
func TestSimulationOfFailedRequests(t *testing.T) {
	const (
		intervals = 101
		requests  = 3000 // an interval: 100 a second
	)
	cfg := DefaultConfig()
	cfg.BaseRate = 0.1
	r := newRig(t, cfg)
	head := sdktrace.TraceIDRatioBased(0.1)
	var failed, adaptive, plain, all int
	for interval := range intervals {
		for range requests {
			r.now = r.now.Add(30 * time.Second / requests)
			bad := r.rnd.Float64() < 0.01
			p := root(r.rnd, "GET /")
			yes := r.ShouldSample(p).Decision == sdktrace.RecordAndSample
			r.observe("", bad, ok)
			if interval == 0 {
				continue
			}
			if yes {
				all++
			}
			if bad {
				failed++
				if yes {
					adaptive++
				}
				if head.ShouldSample(p).Decision == sdktrace.RecordAndSample {
					plain++
				}
			}
		}
		r.step(false)
	}
	share := func(n, of int) float64 { return float64(n) / float64(of) }
	t.Logf("%d failed requests of %d; traced: head %.1f%%, adaptive %.1f%%; all requests traced: %.1f%%",
		failed, (intervals-1)*requests, 100*share(plain, failed), 100*share(adaptive, failed), 100*share(all, (intervals-1)*requests))
	// Five standard deviations of a binomial share.
	for _, c := range []struct {
		got  int
		want float64
	}{{adaptive, 0.3}, {plain, 0.1}} {
		if d := math.Abs(share(c.got, failed) - c.want); d > 5*math.Sqrt(c.want*(1-c.want)/float64(failed)) {
			t.Errorf("%d of %d failed requests were traced, want about %v", c.got, failed, c.want)
		}
	}
}
