package adaptive

import (
	"math"
	"sync/atomic"
	"time"
)

// The budget of traces per second is kept over every window of 10 s: a bucket
// that holds half a second's traces (at least one) is filled at 95% of the
// rate, so 10 s allow 0.95*10 + 0.5 = 10 s' worth. In shorter windows at most
// half a second's worth (or one trace) comes on top. Below 2 traces/s the
// window is the time of 20 traces.
const (
	sustained = 0.95
	burst     = 0.5 // s
)

// limit is a token bucket's constants.
type limit struct {
	on        bool
	emission  int64 // ns between two traces at the sustained rate
	tolerance int64 // ns: how early a trace may come
}

func limitOf(perSecond float64) limit {
	if perSecond == 0 {
		return limit{}
	}
	emission := math.Ceil(float64(time.Second) / (perSecond * sustained))
	depth := max(math.Floor(perSecond*burst), 1)
	return limit{on: true, emission: int64(emission), tolerance: int64((depth - 1) * emission)}
}

// bucket is a token bucket without a lock, in the form of the generic cell
// rate algorithm (ITU-T I.371): due is when the next trace would come if all
// kept their distance, in ns since the sampler's start. Its constants may
// change between two traces.
type bucket struct{ due atomic.Int64 }

// take reports whether a trace may begin, and counts it if so.
func (b *bucket) take(now int64, l limit) bool {
	for {
		due := b.due.Load()
		next := max(due, now)
		if next-now > l.tolerance {
			return false
		}
		if b.due.CompareAndSwap(due, next+l.emission) {
			return true
		}
	}
}
