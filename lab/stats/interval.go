package stats

import "math"

const (
	level = 0.95 // of all intervals
	tail  = (1 - level) / 2
	// z975 is the standard normal distribution's 97.5% point.
	z975 = 1.959963984540054
)

// Interval estimates the median of a plain sample. Values that are not finite
// are left out, with a warning.
//
// From MinSamples values on, the interval is the exact one between two order
// statistics, interpolated inward to 95%; the package comment says why it is
// the limit of a bootstrap, and of which. Where values are tied it is not
// interpolated: rounded values might be covered by less than 93% (six values of
// which about half are equal), while order statistics keep at least their level
// for every distribution (Scheffé and Tukey 1945). Below MinSamples it is
// minimum to maximum, and the warning says how likely it covers the median.
func Interval(xs []float64) Estimate {
	kept, left := finiteOf(xs)
	return estimate(kept, left, "samples")
}

// medianInterval is for n >= 1 sorted values.
func medianInterval(sorted []float64) (lo, hi float64) {
	n := len(sorted)
	if n < MinSamples {
		return sorted[0], sorted[n-1]
	}
	rank, weight := signRank(n)
	lo, hi = sorted[rank-1], sorted[n-rank]
	if tied(sorted) {
		return lo, hi
	}
	return between(lo, sorted[rank], weight), between(hi, sorted[n-rank-1], weight)
}

// between is a + weight*(b-a) for a weight of 0 to 1, without overflow, and not
// outside of a and b by rounding.
func between(a, b, weight float64) float64 {
	return min(max((1-weight)*a+weight*b, min(a, b)), max(a, b))
}

func tied(sorted []float64) bool {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return true
		}
	}
	return false
}

// signRank finds, for n >= MinSamples, the greatest rank (from 1) so that the
// interval from that value to its mirror image holds the median with at least 95%,
// and how far to go from there to the next inner value to hold just 95%.
//
// The interval from rank d holds the median unless fewer than d values lie on one
// of its sides: its level is 1 - 2*P(B <= d-1), B binomial with n and 1/2.
func signRank(n int) (rank int, weight float64) {
	// What lies 12 standard deviations out adds nothing to a sum of float64.
	k := max(0, int(float64(n)/2-6*math.Sqrt(float64(n))))
	p := binomialHalf(n, k)
	below := 0.0 // P(B < k)
	for below+p <= tail {
		below += p
		p *= float64(n-k) / float64(k+1)
		k++
	}
	// Here P(B <= k-1) <= tail < P(B <= k): the outer rank is k. Of the level
	// that the next inner interval loses, 2p, this share may be given up:
	share := (tail - below) / p
	d, all := float64(k), float64(n)
	return k, (all - d) * share / (d + (all-2*d)*share)
}

// binomialHalf is P(B = k) for n trials of probability 1/2.
func binomialHalf(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c - float64(n)*math.Ln2)
}
