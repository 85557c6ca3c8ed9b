package histogram

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBucketsFollowEachOther(t *testing.T) {
	for b := range Buckets(8) {
		last := b.Of(math.MaxUint64)
		for i := range last + 1 {
			start, next := b.Start(i), b.Start(i+1)
			if b.Of(start) != i || b.Of(next-1) != i {
				t.Fatalf("b = %d: bucket %d is from %d to %d, which are in buckets %d and %d", b, i, start, next-1, b.Of(start), b.Of(next-1))
			}
			if width := next - start; width > 1 && width > start>>b {
				t.Fatalf("b = %d: bucket %d is %d wide and begins at %d", b, i, width, start)
			}
		}
		assert.EqualValues(t, 0, b.Start(last+1), "b = %d: there is a bucket after the last", b)
	}
}

func TestOfIsMonotonic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		v, w := rng.Uint64()>>rng.UintN(64), rng.Uint64()>>rng.UintN(64)
		b := Buckets(rng.UintN(8))
		if v <= w && b.Of(v) > b.Of(w) {
			t.Fatalf("b = %d: %d is in bucket %d, %d in %d", b, v, b.Of(v), w, b.Of(w))
		}
	}
}
