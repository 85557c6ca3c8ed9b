package stats

import (
	"fmt"
	"math"
	"slices"
)

// MinSamples is the least n whose interval is worth reading: with fewer values
// even minimum to maximum holds the median with less than 95%.
const MinSamples = 6

// Estimate is a median, or a difference or ratio of medians, with its 95%
// interval, in the unit of the values. Lo <= Median <= Hi, and all are finite.
// N is the number of values or pairs behind it, of two independent samples that
// of the smaller one; in an Estimate with N = 0 only the Warning means
// something.
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
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	return middle(sorted)
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	a, b := sorted[n/2-1], sorted[n/2]
	// Halve first: the sum of two large numbers may overflow. The halves of the
	// smallest ones are 0, hence the limits.
	return min(max(a/2+b/2, a), b)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// finiteOf copies the finite values and counts the others.
func finiteOf(xs []float64) (kept []float64, left int) {
	kept = make([]float64, 0, len(xs))
	for _, x := range xs {
		if finite(x) {
			kept = append(kept, x)
		}
	}
	return kept, len(xs) - len(kept)
}

// estimate sorts xs, which must be finite. Of left values, called noun in
// warnings, it is said that they were not finite.
func estimate(xs []float64, left int, noun string) Estimate {
	e := Estimate{N: len(xs)}
	if len(xs) > 0 {
		slices.Sort(xs)
		e.Median = middle(xs)
		e.Lo, e.Hi = medianInterval(xs)
	}
	e.Warning = join(tooFew(len(xs), noun), leftOut(left, noun))
	return e
}

// tooFew warns of an n with which 95% cannot be reached: the two outermost of n
// values hold the median unless all values are on one side of it.
func tooFew(n int, noun string) string {
	if n >= MinSamples {
		return ""
	}
	warning := fmt.Sprintf("need >= %d %s", MinSamples, noun)
	switch {
	case n > 1:
		return fmt.Sprintf("%s: minimum to maximum holds the median with %.3g%%, not 95%%",
			warning, 100*(1-math.Ldexp(1, 1-n)))
	case n == 1:
		return warning + ": one value has no interval"
	}
	return warning
}

func leftOut(left int, noun string) string {
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s without a finite value left out", left, noun)
}

func join(warnings ...string) string {
	all := ""
	for _, w := range warnings {
		if all != "" && w != "" {
			all += "; "
		}
		all += w
	}
	return all
}
