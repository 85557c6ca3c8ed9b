package load

import (
	"math"
	"time"
)

// schedule says when requests are due; all times are since the start. The zero
// rate is a closed loop's: nothing is ever due.
type schedule struct {
	rate  float64 // requests/s
	limit uint64  // requests in all; 0: none
}

// at is when request k, from 0, is due.
func (s schedule) at(k uint64) time.Duration {
	ns := float64(k) * 1e9 / s.rate
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// due counts the requests that are due at t or earlier, and before end.
func (s schedule) due(t, end time.Duration) uint64 {
	t = min(t, end-1)
	if s.rate == 0 || t < 0 {
		return 0
	}
	// The product may be off by one against at, which decides.
	k := uint64(t.Seconds() * s.rate)
	for k > 0 && s.at(k) > t {
		k--
	}
	for s.at(k) <= t {
		k++
	}
	if s.limit > 0 {
		k = min(k, s.limit)
	}
	return k
}
