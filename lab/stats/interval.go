package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// Interval estimates the median of a plain sample. Equal seeds give equal
// intervals. Values that are not finite are left out, with a warning.
func Interval(xs []float64, seed uint64) Estimate {
	kept := make([]float64, 0, len(xs))
	for _, x := range xs {
		if finite(x) {
			kept = append(kept, x)
		}
	}
	return estimate(kept, len(xs)-len(kept), "samples", seed)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func estimate(xs []float64, left int, noun string, seed uint64) Estimate {
	e := Estimate{N: len(xs)}
	if len(xs) < MinSamples {
		e.Warning = fmt.Sprintf("need >= %d %s", MinSamples, noun)
	}
	if left > 0 {
		if e.Warning != "" {
			e.Warning += "; "
		}
		e.Warning += fmt.Sprintf("%d %s without a finite value left out", left, noun)
	}
	if len(xs) == 0 {
		return e
	}
	sorted := append([]float64(nil), xs...)
	sort.Float64s(sorted)
	e.Median = middle(sorted)
	medians := resampledMedians(sorted, seed)
	e.Lo = quantile(medians, 0.025)
	e.Hi = quantile(medians, 0.975)
	return e
}

// resampledMedians draws n of n with replacement, Resamples times, and
// returns the sorted medians. The sample is sorted, so a resample needs no
// sorting: it is enough to count how often each position was drawn.
func resampledMedians(sorted []float64, seed uint64) []float64 {
	n := len(sorted)
	rng := rand.New(rand.NewPCG(seed, 0x7461_7265))
	counts := make([]int, n)
	medians := make([]float64, Resamples)
	for i := range medians {
		clear(counts)
		for range n {
			counts[rng.IntN(n)]++
		}
		medians[i] = countedMedian(sorted, counts)
	}
	sort.Float64s(medians)
	return medians
}

// countedMedian is the median of the multiset that holds sorted[i] counts[i]
// times; the counts sum to len(sorted).
func countedMedian(sorted []float64, counts []int) float64 {
	n := len(sorted)
	lower, upper := (n-1)/2, n/2 // the two middle ranks; equal if n is odd
	seen := 0
	var a float64
	haveA := false
	for i, c := range counts {
		seen += c
		if !haveA && seen > lower {
			a, haveA = sorted[i], true
		}
		if seen > upper {
			if lower == upper {
				return sorted[i]
			}
			return a/2 + sorted[i]/2
		}
	}
	return a
}

// quantile reads a sorted slice at the nearest rank.
func quantile(sorted []float64, q float64) float64 {
	i := int(math.Round(q * float64(len(sorted)-1)))
	return sorted[i]
}
