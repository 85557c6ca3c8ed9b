package ratelimit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/internal/bucket"
)

const second = int64(time.Second)

// checkBound fails if any stretch of time holds more than limit × T + burst.
func checkBound(t *testing.T, times []int64, limit float64, burst int) {
	t.Helper()
	for i := range times {
		// A stretch that breaks the bound begins and ends with a token.
		for j := i; j < len(times); j++ {
			n, most := float64(j-i+1), limit*float64(times[j]-times[i])/float64(second)+float64(burst)
			if n > most+1e-6 { // testify takes a hundred times as long, and there are millions
				require.Failf(t, "too many tokens", "limit %g, burst %d: %g in %v", limit, burst, n, time.Duration(times[j]-times[i]))
			}
		}
	}
}

func TestBucketNeverExceedsTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		limit := math.Exp2(20*r.Float64() - 5) // 1 in 32 s to 32,768 a second
		burst := 1 + r.IntN(20)
		var b bucket.Bucket
		l := bucket.LimitOf(limit, float64(burst))
		var now int64
		var times []int64
		for range 2000 {
			if r.IntN(50) == 0 { // a pause
				now += int64(r.Float64() * 30 / limit * float64(second))
			}
			now += int64(r.ExpFloat64() * 0.5 / limit * float64(second))
			if b.Take(now, l) {
				times = append(times, now)
			}
		}
		checkBound(t, times, limit, burst)
	}
}
