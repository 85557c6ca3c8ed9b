package adaptive

import (
	"math"

	"github.com/tare-trace/tare/otel/internal/bucket"
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

// limitOf is the token bucket's limit for a budget of so many traces; 0 is none.
func limitOf(perSecond float64) bucket.Limit {
	if perSecond == 0 {
		return bucket.Limit{}
	}
	return bucket.LimitOf(perSecond*sustained, max(math.Floor(perSecond*burst), 1))
}
