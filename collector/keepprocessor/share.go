package keepprocessor

import (
	"math"
	"time"

	"github.com/tare-trace/tare/otel/consistent"
)

// share is the probability with which unremarkable traces are kept. It counts
// what comes, with exponential forgetting, and so finds the probability that
// lets the rate through.
//
// With the time constant τ and a rate r, the traces counted at a time stand for
// τ seconds, so r·τ of them may be kept. The threshold for a trace depends on
// how many came, never on which bits they have: the estimate of counts stays
// without bias.
type share struct {
	most      float64
	perSecond float64
	adapt     time.Duration

	last time.Time
	// Arrivals by the probability that they came with, 2^-(i+1) to 2^-i: how
	// many, and how many requests they stand for. A trace that came with a
	// small probability is kept at any greater one.
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

// advance forgets with time.
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

// observe counts a trace that came with the threshold.
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
		// From the smallest probabilities on: what came with less than p is
		// kept as a whole.
		for i := numWeights - 1; i >= 0 && weight > 0; i-- {
			if s.count[i] == 0 || budget/weight <= s.count[i]/s.weight[i] {
				continue
			}
			budget -= s.count[i]
			weight -= s.weight[i]
		}
		if weight > 1e-9 { // else every trace is kept, but for what rounding leaves
			p = min(p, max(budget, 0)/weight)
		}
	}
	s.threshold = consistent.FromProbability(p).Round(consistent.Precision)
}
