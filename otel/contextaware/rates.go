package contextaware

import (
	"maps"
	"sync/atomic"

	"github.com/tare-trace/tare/otel/consistent"
)

// rates keeps rates ready for the probabilities that a function has returned.
// There are few different ones in practice; should there be many, memory stays
// bounded and the rest is built each time.
type rates struct {
	ready atomic.Pointer[map[consistent.Threshold]*consistent.Rate]
}

const maxRates = 64

func (r *rates) of(probability float64) *consistent.Rate {
	th := consistent.FromProbability(probability).Round(consistent.Precision)
	ready := r.ready.Load()
	if ready != nil {
		if rate, ok := (*ready)[th]; ok {
			return rate
		}
	}
	rate := consistent.RateOf(th)
	next := map[consistent.Threshold]*consistent.Rate{}
	if ready != nil {
		if len(*ready) >= maxRates {
			return rate
		}
		next = maps.Clone(*ready)
	}
	next[th] = rate
	r.ready.CompareAndSwap(ready, &next) // if another was first, the next call adds it
	return rate
}
