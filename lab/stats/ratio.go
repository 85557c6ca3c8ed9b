package stats

// Ratio is the estimate of a ratio: 1 means equal.
type Ratio = Estimate

// RatioInterval estimates the median of the pairwise ratios a[i]/b[i]. Pairs
// must have been measured close to each other: that is what takes the slow
// drift of a machine off. Values without a partner are left out, as are pairs
// whose ratio is not finite, with a warning.
func RatioInterval(a, b []float64, seed uint64) Ratio {
	pairs := min(len(a), len(b))
	ratios := make([]float64, 0, pairs)
	for i := range pairs {
		if r := a[i] / b[i]; finite(r) {
			ratios = append(ratios, r)
		}
	}
	return estimate(ratios, max(len(a), len(b))-len(ratios), "pairs", seed)
}
