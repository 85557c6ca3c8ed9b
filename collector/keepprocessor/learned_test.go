package keepprocessor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBuckets(t *testing.T) {
	if want := 1 + int(math.Ceil(math.Log(float64(1<<42)/shortest)*perLog)); numBuckets != want {
		t.Errorf("numBuckets is %d, want %d", numBuckets, want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		d := time.Duration(math.Exp(rng.Float64() * math.Log(1<<41)))
		i := bucketOf(d)
		end := upperEnd(i)
		if int64(d) > end+1 || i > 0 && float64(end) > float64(d)*growth+1 {
			t.Fatalf("%v is in bucket %d, which ends at %v", d, i, time.Duration(end))
		}
	}
	for d, want := range map[time.Duration]int{-time.Second: 0, 0: 0, time.Microsecond: 0, math.MaxInt64: numBuckets - 1} {
		assert.Equal(t, want, bucketOf(d), "bucket of %v", d)
	}
}

func learn99(after int) *learned {
	return newLearned(Learn{Quantile: 0.99, Operations: 4, After: after})
}

// The limit is at most 4% above the exact quantile, and longer durations are slow.
func TestLearnedQuantile(t *testing.T) {
	l, rng := learn99(0), rand.New(rand.NewPCG(2, 2))
	require.Equal(t, 2000, l.config.After)
	at := newClock()
	draw := func() time.Duration { return time.Duration(math.Exp(rng.NormFloat64()) * 1e7) }
	var all []time.Duration
	for range 6400 { // the window is not full: nothing is forgotten
		d := draw()
		all = append(all, d)
		l.observe("shop", "GET /", d, at.now)
	}
	slices.Sort(all)
	exact := all[int(math.Ceil(0.99*6400))-1]
	limit := time.Duration(l.operations[operationKey{"shop", "GET /"}].limit)
	if limit < exact || float64(limit) > float64(exact)*growth {
		t.Errorf("limit %v, the exact quantile is %v", limit, exact)
	}
	slow := 0
	for range 20_000 {
		d := draw()
		if l.observe("shop", "GET /", d, at.now) {
			slow++
		}
	}
	if slow < 100 || slow > 300 {
		t.Errorf("%d of 20000 are slow, want about 200", slow)
	}
}

// Nothing is slow before there are enough observations, nor below at_least.
func TestLearnedNotYet(t *testing.T) {
	l, at := learn99(500), newClock()
	l.config.AtLeast = time.Second
	for i := range 500 {
		require.False(t, l.observe("shop", "GET /", time.Duration(i)*time.Hour, at.now), "observation %d is slow", i)
		l.observe("shop", "GET /quick", time.Millisecond, at.now)
	}
	assert.False(t, l.observe("shop", "GET /quick", 999*time.Millisecond, at.now), "999 ms is slow, at least 1 s was asked for")
	assert.True(t, l.observe("shop", "GET /quick", time.Second, at.now), "1 s is not slow, all others took 1 ms")
	assert.False(t, l.observe("stock", "GET /quick", time.Minute, at.now), "another service's operation has this one's limit")
}

// If all requests of an operation become slower, its limit follows.
func TestLearnedForgets(t *testing.T) {
	l, at := learn99(500), newClock()
	for range 10_000 {
		l.observe("shop", "GET /", time.Millisecond, at.now)
	}
	slow := 0
	for range 10_000 {
		if l.observe("shop", "GET /", time.Second, at.now) {
			slow++
		}
	}
	if slow == 0 || slow > 1000 {
		t.Errorf("%d were slow after the change", slow)
	}
	for range 60_000 { // and back, which takes until seconds are less than 1%
		l.observe("shop", "GET /", time.Millisecond, at.now)
	}
	assert.True(t, l.observe("shop", "GET /", time.Second, at.now), "what was usual long ago is still not slow")
	assert.Less(t, l.operations[operationKey{"shop", "GET /"}].total, l.window, "observations that count")
}

func TestLearnedIsBounded(t *testing.T) {
	l, at := learn99(500), newClock()
	for i := range 10 {
		l.observe("shop", fmt.Sprint(i), time.Second, at.now)
	}
	if len(l.operations) != 4 || l.unlearned != 6 {
		t.Errorf("%d operations, %d unlearned; want 4, 6", len(l.operations), l.unlearned)
	}
	at.advance(9 * time.Minute)
	l.observe("shop", "0", time.Second, at.now)
	l.observe("shop", "new", time.Second, at.now)
	assert.EqualValues(t, 7, l.unlearned, "an operation made room that was seen nine minutes ago")
	at.advance(2 * time.Minute)
	l.observe("shop", "new", time.Second, at.now)
	if _, ok := l.operations[operationKey{"shop", "new"}]; !ok || len(l.operations) != 2 {
		t.Errorf("%d operations; want those two that were seen lately", len(l.operations))
	}
}
