// Package stats turns repeated measurements into a median, a 95% interval and
// the warnings that belong to them. It refuses to hide how little it knows:
// every Estimate carries its n, and says so when n is too small; it never
// returns NaN or infinity, and it does not judge ("faster", "no difference").
package stats

import "sort"

// MinSamples is the least n whose interval is worth reading: below it the
// 95% bootstrap interval of a median is little more than minimum to maximum.
const MinSamples = 6

// Resamples is how many times a sample is drawn anew for an interval.
const Resamples = 10_000

// Estimate is a median with its 95% percentile bootstrap interval.
type Estimate struct {
	Median  float64 `json:"median"`
	Lo      float64 `json:"lo"`
	Hi      float64 `json:"hi"`
	N       int     `json:"n"`
	Warning string  `json:"warning,omitempty"`
}

// Median is the middle value, or the mean of the two middle ones; 0 for none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := append([]float64(nil), xs...)
	sort.Float64s(sorted)
	return middle(sorted)
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	// Halve first: the sum of two large numbers may overflow.
	return sorted[n/2-1]/2 + sorted[n/2]/2
}
