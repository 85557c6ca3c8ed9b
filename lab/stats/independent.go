package stats

import "math"

// Difference estimates the median of a minus the median of b, two samples that
// are independent of each other; for pairs there is PairedDifference. N is that
// of the smaller sample; values that are not finite are left out, with a warning.
//
// The two intervals of the medians are combined as variances are, each side for
// itself (MOVER; Zou and Donner 2008): with the distances h from the medians to
// the interval ends that face the limit,
//
//	limit = difference ± √(ha² + hb²)
//
// That alone holds too much, about 98% at n = 6, since a median and the end of its
// own interval move together. With the shares w = h/√(ha²+hb²) and the
// large-sample variances of medians and of gaps between order statistics, the
// variance of limit - difference is smaller than assumed by the factor
//
//	1 - Σ w³(1-w)·2z/√n,   z = 1.96, over both samples,
//
// whose root is therefore applied to the distance. Where a sample has ties it is
// not, nor below MinSamples, where the limits are those of the two intervals
// taken from each other.
func Difference(a, b []float64) Estimate {
	ka, leftA := finiteOf(a)
	kb, leftB := finiteOf(b)
	x := side{Estimate: estimate(ka, 0, "samples")}
	y := side{Estimate: estimate(kb, 0, "samples")}
	x.tied, y.tied = tied(ka), tied(kb)
	n := min(x.N, y.N)
	few := ""
	if n < MinSamples {
		few = tooFew(0, "samples of each")
	}
	left := leftOut(leftA+leftB, "samples")
	if n == 0 {
		return Estimate{Warning: join(few, left)}
	}
	e := minus(x, y)
	if !finite(e.Median) || !finite(e.Lo) || !finite(e.Hi) {
		e = Estimate{Warning: "no estimate: its interval is beyond the range of numbers"}
	}
	e.Warning = join(few, e.Warning, left)
	return e
}

// side is one of two independent samples.
type side struct {
	Estimate
	tied bool
}

func minus(x, y side) Estimate {
	e := Estimate{Median: x.Median - y.Median, N: min(x.N, y.N)}
	if e.N < MinSamples {
		e.Lo, e.Hi = x.Lo-y.Hi, x.Hi-y.Lo
		return e
	}
	e.Lo = e.Median - distance(x, y, x.Median-x.Lo, y.Hi-y.Median)
	e.Hi = e.Median + distance(x, y, x.Hi-x.Median, y.Median-y.Lo)
	return e
}

// distance from a difference of medians to a limit, from those of both medians.
func distance(x, y side, hx, hy float64) float64 {
	h := math.Hypot(hx, hy)
	if h == 0 || x.tied || y.tied {
		return h
	}
	less := func(w float64, n int) float64 {
		return w * w * w * (1 - w) * 2 * z975 / math.Sqrt(float64(n))
	}
	// At most 0.34, for n = 6 and equal shares.
	return h * math.Sqrt(1-less(hx/h, x.N)-less(hy/h, y.N))
}
