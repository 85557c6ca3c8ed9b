package ratelimit

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const second = int64(time.Second)

// checkBound fails if any stretch of time holds more than limit × T + burst.
func checkBound(t *testing.T, times []int64, limit float64, burst int) {
	t.Helper()
	for i := range times {
		// A stretch that breaks the bound begins and ends with a token.
		for j := i; j < len(times); j++ {
			n, most := float64(j-i+1), limit*float64(times[j]-times[i])/float64(second)+float64(burst)
			if n > most+1e-6 {
				t.Fatalf("limit %g, burst %d: %g in %v", limit, burst, n, time.Duration(times[j]-times[i]))
			}
		}
	}
}

func TestBucketNeverExceedsTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		limit := math.Exp2(20*r.Float64() - 5) // 1 in 32 s to 32,768 a second
		burst := 1 + r.IntN(20)
		var b bucket
		b.set(limit, burst)
		var now int64
		var times []int64
		for range 2000 {
			if r.IntN(50) == 0 { // a pause
				now += int64(r.Float64() * 30 / limit * float64(second))
			}
			now += int64(r.ExpFloat64() * 0.5 / limit * float64(second))
			if b.take(now) {
				times = append(times, now)
			}
		}
		checkBound(t, times, limit, burst)
	}
}

func TestBucketUsesTheLimitUp(t *testing.T) {
	for _, c := range []struct {
		limit float64
		burst int
		want  int // in 10 s of overload
	}{{10, 1, 101}, {10, 10, 110}, {0.5, 1, 6}, {1000, 250, 10250}, {100, 3, 1003}} {
		var b bucket
		b.set(c.limit, c.burst)
		n := 0
		for now := int64(0); now <= 10*second; now += second / 10_000 {
			if b.take(now) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("limit %g, burst %d: %d in 10 s, want %d", c.limit, c.burst, n, c.want)
		}
	}
}

func TestBucketFillsInAPause(t *testing.T) {
	var b bucket
	b.set(10, 5)
	take := func(now int64) (n int) {
		for b.take(now) {
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
		if got := take(c.now); got != c.want {
			t.Errorf("at %v: %d tokens, want %d", time.Duration(c.now), got, c.want)
		}
	}
}

func TestBucketAtItsBounds(t *testing.T) {
	const decades = second * 60 * 60 * 24 * 365 * 50
	for _, limit := range []float64{math.SmallestNonzeroFloat64, 1e-12, 1e9} {
		for _, burst := range []int{1, math.MaxInt} {
			var b bucket
			b.set(limit, burst)
			for _, now := range []int64{0, 1, decades} {
				if !b.take(now) && (burst > 1 || now == decades) {
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
	var b bucket
	b.set(1000, burst)
	var clock, taken atomic.Int64
	run := func(step int64) {
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range tries {
					if b.take(clock.Add(step)) {
						taken.Add(1)
					}
				}
			})
		}
		wg.Wait()
	}
	run(0) // time stands still
	if n := taken.Load(); n != burst {
		t.Fatalf("%d tokens out of a bucket of %d", n, burst)
	}
	run(b.interval / 5) // 5 tries for each token
	for b.take(clock.Load()) {
		taken.Add(1)
	}
	if n, want := taken.Load(), burst+clock.Load()/b.interval; n != want {
		t.Errorf("%d tokens in %v, want %d", n, time.Duration(clock.Load()), want)
	}
}

// Tokens that two goroutines take at once are two tokens.
func TestBucketLosesNoToken(t *testing.T) {
	const goroutines, tries = 8, 1_000_000
	var b bucket
	b.set(1e6, goroutines*tries)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range tries {
				if !b.take(0) {
					t.Error("refused within the burst")
					return
				}
			}
		})
	}
	wg.Wait()
	if got := b.full.Load() / b.interval; got != goroutines*tries || b.take(0) {
		t.Errorf("%d tokens were taken, the bucket knows of %d", goroutines*tries, got)
	}
}
