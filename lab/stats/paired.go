package stats

// Ratio is the estimate of a ratio: 1 means equal.
type Ratio = Estimate

// RatioInterval estimates the median of the pairwise ratios a[i]/b[i]. The two
// values of a pair must have been measured close to each other: this removes
// the slow drift of a machine. Values without a partner are left out, as are
// pairs whose ratio is not finite, with a warning.
func RatioInterval(a, b []float64) Ratio {
	return paired(a, b, func(x, y float64) float64 { return x / y })
}

// PairedDifference estimates the median of the pairwise differences a[i]-b[i],
// for metrics that may be 0 without a tracer. Otherwise it is like
// RatioInterval.
func PairedDifference(a, b []float64) Estimate {
	return paired(a, b, func(x, y float64) float64 { return x - y })
}

func paired(a, b []float64, compare func(x, y float64) float64) Estimate {
	pairs := min(len(a), len(b))
	kept := make([]float64, 0, pairs)
	for i := range pairs {
		if v := compare(a[i], b[i]); finite(v) {
			kept = append(kept, v)
		}
	}
	return estimate(kept, max(len(a), len(b))-len(kept), "pairs")
}
