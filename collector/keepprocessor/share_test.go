package keepprocessor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/consistent"
)

// arrive simulates traces that arrive at the rate for a time, each sampled before with
// one of the probabilities, and returns how many are kept.
func arrive(s *share, at *clock, rng *rand.Rand, perSecond float64, d time.Duration, heads ...float64) (kept int) {
	for end := at.now.Add(d); at.now.Before(end); {
		at.advance(time.Duration(rng.ExpFloat64() / perSecond * 1e9))
		th := consistent.NewRate(heads[rng.IntN(len(heads))]).Threshold()
		s.advance(at.now)
		s.observe(th)
		s.settle()
		// It arrived, so its bits are at least the threshold.
		r := consistent.Randomness(uint64(th) + rng.Uint64N(uint64(consistent.Never-th)))
		if s.threshold.Samples(r) {
			kept++
		}
	}
	return kept
}

func TestShareHoldsTheRate(t *testing.T) {
	for name, heads := range map[string][]float64{"all": {1}, "a tenth": {0.1}, "mixed": {1, 0.5, 0.02}, "very few": {1e-5}} {
		at, rng := newClock(), rand.New(rand.NewPCG(1, 2))
		s := newShare(Share{Probability: 1, TracesPerSecond: 50, Adapt: 10 * time.Second}, at.now)
		for _, load := range []float64{400, 100, 800} {
			arrive(&s, at, rng, load, 80*time.Second, heads...) // eight time constants
			const seconds = 100
			kept := float64(arrive(&s, at, rng, load, seconds*time.Second, heads...))
			assert.LessOrEqual(t, math.Abs(kept-50*seconds), 5*math.Sqrt(50*seconds), "%s, %v/s: kept %v/s", name, load, kept/seconds)
		}
		// Below the rate everything is kept.
		arrive(&s, at, rng, 20, 100*time.Second, heads...)
		before := at.now
		kept := arrive(&s, at, rng, 20, 100*time.Second, heads...)
		if n := at.now.Sub(before).Seconds() * 20; math.Abs(float64(kept)-n) > 5*math.Sqrt(n) || s.threshold != consistent.Always {
			t.Errorf("%s: of 20/s kept %d in 100 s, threshold %v", name, kept, s.threshold)
		}
	}
}

// When load begins, as many additional traces are kept as the package comment says.
func TestShareOvershoot(t *testing.T) {
	at, rng := newClock(), rand.New(rand.NewPCG(3, 4))
	const rate, load, adapt = 10.0, 500.0, 10.0
	s := newShare(Share{Probability: 1, TracesPerSecond: rate, Adapt: adapt * time.Second}, at.now)
	at.advance(time.Hour) // a quiet time does not save up more
	const seconds = 8 * adapt
	kept := float64(arrive(&s, at, rng, load, seconds*time.Second, 1))
	most := rate*seconds + rate*adapt*(1+math.Log(load/rate))
	if kept > most+5*math.Sqrt(most) || kept < rate*seconds {
		t.Errorf("kept %v, want between %v and %v", kept, rate*seconds, most)
	}
	if early := rate * adapt * math.Log(load/rate); kept < rate*seconds+early/2 {
		t.Errorf("kept %v: the comment promises too little", kept)
	}
}

func TestShareProbabilityIsALimit(t *testing.T) {
	at := newClock()
	s := newShare(Share{Probability: 0.25, TracesPerSecond: 1e6, Adapt: time.Second}, at.now)
	arrive(&s, at, rand.New(rand.NewPCG(5, 6)), 100, 10*time.Second, 1)
	assert.Equal(t, 0.25, s.threshold.Probability())
}

// The probability for a message of many traces includes these traces, not only earlier
// ones.
func TestShareOfABurst(t *testing.T) {
	at := newClock()
	s := newShare(Share{Probability: 1, TracesPerSecond: 10, Adapt: 10 * time.Second}, at.now)
	for range 100_000 {
		s.observe(consistent.Always)
	}
	s.settle()
	if got, want := s.threshold.Probability(), 100.0/100_000; math.Abs(got-want) > want/1000 {
		t.Errorf("probability %v, want %v", got, want)
	}
}

// The processor's share follows the rate of traces, with their weights, and forgets old
// ones.
func TestShareOfTheProcessor(t *testing.T) {
	at := newClock()
	config := quiet()
	config.Share = Share{Probability: 1, TracesPerSecond: 10, Adapt: 10 * time.Second}
	k := keeperOf(t, config, at)
	td, resources := ptrace.NewTraces(), map[string]ptrace.SpanSlice{}
	const traces, head = 1000, 0.125
	for i := range uint64(traces) { // sampled with 1/8: random bits from e0... on
		addTrace(td, resources, idOf(0xe0<<48|i<<40), []spec{{service: "shop", name: "x", state: "ot=th:e"}})
	}
	decided(t, k, td)
	if got, want := k.share.threshold.Probability(), 100.0/traces*head; math.Abs(got-want) > want/1000 {
		t.Errorf("probability %v, want %v", got, want)
	}
	at.advance(10 * time.Minute)
	decided(t, k, one(1, request("shop", "GET /")...))
	assert.Equal(t, consistent.Always, k.share.threshold, "after ten minutes")
}

func TestShareOfExtremes(t *testing.T) {
	at := newClock()
	s := newShare(Share{Probability: 1, TracesPerSecond: 1e-6, Adapt: time.Second}, at.now)
	s.observe(consistent.Never - 1) // stands for 2^56 requests
	s.observe(consistent.Always)
	s.settle()
	for range 20 {
		at.advance(time.Minute)
		s.advance(at.now) // counts fall below the smallest numbers
		s.settle()
	}
	at.advance(-time.Hour)
	s.advance(at.now)
	s.settle()
	if p := s.threshold.Probability(); math.IsNaN(p) || p != 1 {
		t.Errorf("after a long silence the probability is %v, want 1", p)
	}
}
