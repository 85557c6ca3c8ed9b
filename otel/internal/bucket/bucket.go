// Package bucket is the token bucket of the samplers. It knows no clock: times are
// nanoseconds of one that its user chooses.
package bucket

import (
	"math"
	"sync/atomic"
	"time"
)

// Limit is what a bucket allows. The zero value is none: it is the caller's to ask
// [Limit.IsZero] before it takes.
type Limit struct {
	interval  int64 // ns between tokens
	tolerance int64 // ns by which a token may be early: interval × (burst-1)
}

// IsZero reports whether there is no limit.
func (l Limit) IsZero() bool { return l.interval == 0 }

const (
	// Both bounds together stay far from the end of int64, over any time that
	// a process can run.
	maxInterval  = 1 << 55 // ns, a little over a year
	maxTolerance = 1 << 61
)

// LimitOf returns the limit of so many tokens a second, and burst (at least 1)
// at once. The interval is rounded up, never down: the limit is a promise.
func LimitOf(perSecond, burst float64) Limit {
	interval := min(math.Ceil(float64(time.Second)/perSecond), maxInterval)
	return Limit{int64(interval), int64(min(interval*(burst-1), maxTolerance))}
}

// Bucket is a token bucket in the form of the generic cell rate algorithm
// (ITU-T I.371, virtual scheduling): one number, the time at which the bucket
// will be full again, stands for the level and for when it was computed. So one
// compare-and-swap takes a token, and refusing one writes nothing. The zero
// value is full.
type Bucket struct{ full atomic.Int64 }

// Take takes a token, if there is one at now (ns, not negative). The limit may
// change from call to call.
func (b *Bucket) Take(now int64, l Limit) bool {
	for {
		full := b.full.Load()
		if now < full-l.tolerance {
			return false
		}
		if b.full.CompareAndSwap(full, max(full, now)+l.interval) {
			return true
		}
	}
}
