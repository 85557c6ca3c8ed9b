package keep_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/otel/keep"
)

// unusual observes a local root and reports whether it is kept.
func unusual(p *keep.Compiled, name string, d time.Duration) bool {
	var v keep.Verdict
	p.Observe(&v, keep.Ended{Name: name, LocalRoot: true, Duration: d})
	return v.Kept()
}

// Exponential durations: after the warm-up about 1-q of the traces are kept, and
// less than that only by the width of a bucket (at most an eighth, which makes
// the share at least (1-q)^(9/8)).
func TestLearnedShare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, q := range []float64{0.9, 0.99} {
		for _, mean := range []time.Duration{200 * time.Microsecond, 20 * time.Millisecond, 3 * time.Second} {
			p := compile(t, keep.Policy{Learn: keep.Learn{Quantile: q}})
			draw := func() time.Duration { return time.Duration(random.ExpFloat64() * float64(mean)) }
			for range 20_000 {
				unusual(p, "op", draw())
			}
			const n = 200_000
			kept := 0
			for range n {
				if unusual(p, "op", draw()) {
					kept++
				}
			}
			if share := float64(kept) / n / (1 - q); share < 0.5 || share > 1.3 {
				t.Errorf("q %g, mean %v: %.3f of the traces are kept", q, mean, float64(kept)/n)
			}
		}
	}
}

func TestLearnedFollows(t *testing.T) {
	p := compile(t, keep.Policy{Learn: keep.Learn{Quantile: 0.99, After: 1000, AtLeast: time.Millisecond}})
	for range 960 {
		if unusual(p, "op", time.Millisecond) || unusual(p, "quick", time.Microsecond) {
			t.Fatal("a trace is kept before the threshold is learned")
		}
	}
	assert.False(t, unusual(p, "op", time.Hour), "a trace is kept before the threshold is learned")
	for range 200 {
		unusual(p, "op", time.Millisecond)
		unusual(p, "quick", time.Microsecond)
	}
	assert.True(t, unusual(p, "op", 2*time.Millisecond), "twice what is usual is not kept")
	assert.False(t, unusual(p, "op", time.Millisecond), "what is usual is kept")
	if unusual(p, "quick", 900*time.Microsecond) || !unusual(p, "quick", time.Millisecond) {
		t.Error("AtLeast is not the lower limit")
	}
	// The operation becomes slower as a whole: kept at first, usual soon.
	assert.True(t, unusual(p, "op", 5*time.Millisecond), "the new duration is not kept at first")
	last := 0
	for i := range 100_000 {
		if unusual(p, "op", 5*time.Millisecond) {
			last = i
		}
	}
	assert.LessOrEqual(t, last, 50_000)
}

// What was slow once is forgotten when it has become rare.
func TestLearnedForgets(t *testing.T) {
	p := compile(t, keep.Policy{Learn: keep.Learn{Quantile: 0.99}})
	for range 300_000 {
		unusual(p, "op", 5*time.Millisecond)
	}
	assert.False(t, unusual(p, "op", 2*time.Millisecond), "less than what is usual is kept")
	for range 3_000_000 {
		unusual(p, "op", time.Millisecond)
	}
	assert.True(t, unusual(p, "op", 2*time.Millisecond), "the slow past is not forgotten")
}

func TestLearnedExtremes(t *testing.T) {
	p := compile(t, keep.Policy{Learn: keep.Learn{Quantile: 0.5, After: 1}})
	for range 1000 {
		for _, d := range []time.Duration{-time.Hour, 0, 1, time.Hour, 1<<63 - 1} {
			unusual(p, "op", d)
		}
	}
	assert.False(t, unusual(p, "op", -time.Hour), "a negative duration is unusually long")
}

// Names beyond the bound cost no memory and are counted; all of it under
// concurrency.
func TestLearnedIsBounded(t *testing.T) {
	p := newPipeline(t, childrenOnly{}, keep.Policy{Learn: keep.Learn{Quantile: 0.5, Operations: 10}})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				_, s := p.tracer.Start(t.Context(), fmt.Sprint("op", g, "-", i))
				s.End()
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 390, p.processor.Stats().Unlearned, "of 400 names are unlearned")
}

// The default of After is 20/(1-Quantile), though 1-0.99 is not exactly 0.01.
func TestLearnedAfterByDefault(t *testing.T) {
	for q, want := range map[float64]int{0.5: 40, 0.9: 200, 0.99: 2000, 0.999: 20000} {
		assert.Equal(t, want, compile(t, keep.Policy{Learn: keep.Learn{Quantile: q}}).Policy().Learn.After, "quantile %v: After", q)
	}
}
