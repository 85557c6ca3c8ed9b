package ratelimit

import (
	"math"
	"sync/atomic"
	"time"
)

// bucket is a token bucket in the form of the generic cell rate algorithm
// (ITU-T I.371, virtual scheduling): one number, the time at which the bucket
// will be full again, stands for the level and for when it was computed. So one
// compare-and-swap takes a token, and refusing one writes nothing.
type bucket struct {
	interval  int64 // ns between tokens
	tolerance int64 // ns by which a token may be early: interval × (burst-1)
	full      atomic.Int64
}

const (
	// Both bounds together stay far from the end of int64, over any time that
	// a process can run.
	maxInterval  = 1 << 55 // ns, a little over a year
	maxTolerance = 1 << 61
)

// set fills the bucket. The interval is rounded up, never down: the limit is a
// promise.
func (b *bucket) set(perSecond float64, burst int) {
	interval := math.Ceil(float64(time.Second) / perSecond)
	b.interval = int64(min(interval, maxInterval))
	b.tolerance = int64(min(float64(b.interval)*float64(burst-1), maxTolerance))
}

// take takes a token, if there is one at now (ns, not negative).
func (b *bucket) take(now int64) bool {
	for {
		full := b.full.Load()
		if now < full-b.tolerance {
			return false
		}
		if b.full.CompareAndSwap(full, max(full, now)+b.interval) {
			return true
		}
	}
}
