package keepprocessor

import (
	"math"
	"time"

	"github.com/tare-trace/tare/otel/consistent"
)

// share is the probability with which traces are kept that no other reason keeps. It
// counts them with exponential forgetting, and derives the probability that keeps the rate.
//
// With the time constant τ and the rate r, the counted traces represent τ seconds, so r·τ
// of them may be kept. The threshold depends on how many traces came, never on their random
// bits, so that estimated counts stay unbiased.
type share struct {
	most      float64
	perSecond float64
	adapt     time.Duration

	last time.Time
	// Traces by the probability with which they were sampled before, 2^-(i+1) to 2^-i:
	// how many there are, and how many requests they represent. A trace sampled with a
	// smaller probability than the share's is kept.
	count, weight [numWeights]float64

	threshold consistent.Threshold
}

// numWeights: th has 56 bits.
const numWeights = 57

func newShare(c Share, now time.Time) share {
	s := share{most: c.Probability, perSecond: c.TracesPerSecond, adapt: c.Adapt, last: now}
	s.settle()
	return s
}

// advance reduces the counts by the time that has passed.
func (s *share) advance(now time.Time) {
	if s.perSecond == 0 {
		return
	}
	passed := now.Sub(s.last)
	if passed <= 0 {
		return
	}
	s.last = now
	left := math.Exp(-passed.Seconds() / s.adapt.Seconds())
	for i := range s.count {
		s.count[i] *= left
		s.weight[i] *= left
	}
}

// observe counts a trace that arrived with this threshold.
func (s *share) observe(th consistent.Threshold) {
	if s.perSecond == 0 {
		return
	}
	w := consistent.AdjustedCount(th)
	i := min(math.Ilogb(w), numWeights-1)
	s.count[i]++
	s.weight[i] += w
}

// settle finds the probability p for which the expected number of kept traces,
// the sum of min(count, p·weight), is the budget.
func (s *share) settle() {
	p := s.most
	if s.perSecond > 0 {
		budget := s.perSecond * s.adapt.Seconds()
		var weight float64
		for _, w := range s.weight {
			weight += w
		}
		// From the smallest probabilities upwards: all traces sampled with less than
		// p are kept.
		for i := numWeights - 1; i >= 0 && weight > 0; i-- {
			if s.count[i] == 0 || budget/weight <= s.count[i]/s.weight[i] {
				continue
			}
			budget -= s.count[i]
			weight -= s.weight[i]
		}
		if weight > 1e-9 { // else every trace is kept; the rest is rounding
			p = min(p, max(budget, 0)/weight)
		}
	}
	s.threshold = consistent.FromProbability(p).Round(consistent.Precision)
}
