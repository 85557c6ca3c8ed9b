package bucket

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = int64(time.Second)

func TestBucketUsesTheLimitUp(t *testing.T) {
	for _, c := range []struct {
		limit float64
		burst int
		want  int // in 10 s of overload
	}{{10, 1, 101}, {10, 10, 110}, {0.5, 1, 6}, {1000, 250, 10250}, {100, 3, 1003}} {
		var b Bucket
		l := LimitOf(c.limit, float64(c.burst))
		n := 0
		for now := int64(0); now <= 10*second; now += second / 10_000 {
			if b.Take(now, l) {
				n++
			}
		}
		assert.Equal(t, c.want, n, "limit %g, burst %d: in 10 s", c.limit, c.burst)
	}
}

func TestBucketFillsInAPause(t *testing.T) {
	var b Bucket
	l := LimitOf(10, 5)
	take := func(now int64) (n int) {
		for b.Take(now, l) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		now  int64
		want int
	}{
		{0, 5}, {second/10 - 1, 0}, {second / 10, 1}, {second / 10 * 3, 2},
		{second / 5, 0}, // a clock that was read before: no tokens, no harm
		{second / 10 * 3, 0}, {100 * second, 5}, {100*second + second/2, 5}, {second * 60 * 60 * 24 * 365 * 20, 5},
	} {
		assert.Equal(t, c.want, take(c.now), "at %v: tokens", time.Duration(c.now))
	}
}

func TestBucketAtItsBounds(t *testing.T) {
	const decades = second * 60 * 60 * 24 * 365 * 50
	for _, limit := range []float64{math.SmallestNonzeroFloat64, 1e-12, 1e9} {
		for _, burst := range []int{1, math.MaxInt} {
			var b Bucket
			l := LimitOf(limit, float64(burst))
			for _, now := range []int64{0, 1, decades} {
				if !b.Take(now, l) && (burst > 1 || now == decades) {
					t.Errorf("limit %g, burst %d: nothing at %d", limit, burst, now)
				}
				if b.full.Load() < 0 {
					t.Fatalf("limit %g, burst %d: overflow at %d", limit, burst, now)
				}
			}
		}
	}
}

func TestBucketIsExactUnderConcurrency(t *testing.T) {
	const goroutines, tries, burst = 8, 5000, 64
	var b Bucket
	l := LimitOf(1000, burst)
	var clock, taken atomic.Int64
	run := func(step int64) {
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range tries {
					if b.Take(clock.Add(step), l) {
						taken.Add(1)
					}
				}
			})
		}
		wg.Wait()
	}
	run(0) // time stands still
	require.EqualValues(t, burst, taken.Load(), "tokens")
	run(l.interval / 5) // 5 tries for each token
	for b.Take(clock.Load(), l) {
		taken.Add(1)
	}
	if n, want := taken.Load(), burst+clock.Load()/l.interval; n != want {
		t.Errorf("%d tokens in %v, want %d", n, time.Duration(clock.Load()), want)
	}
}

// Tokens that two goroutines take at once are two tokens.
func TestBucketLosesNoToken(t *testing.T) {
	const goroutines, tries = 8, 1_000_000
	var b Bucket
	l := LimitOf(1e6, goroutines*tries)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range tries {
				if !b.Take(0, l) {
					t.Error("refused within the burst")
					return
				}
			}
		})
	}
	wg.Wait()
	if got := b.full.Load() / l.interval; got != goroutines*tries || b.Take(0, l) {
		t.Errorf("%d tokens were taken, the bucket knows of %d", goroutines*tries, got)
	}
}
