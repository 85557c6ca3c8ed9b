package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// levelOf is the level of the interval from value number d to its mirror image,
// from whole binomial coefficients.
func levelOf(n, d int) float64 {
	outside, c := new(big.Int), big.NewInt(1)
	for k := range d {
		outside.Add(outside, c)
		c.Mul(c, big.NewInt(int64(n-k))).Quo(c, big.NewInt(int64(k+1)))
	}
	share, _ := new(big.Rat).SetFrac(outside, new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
	return 1 - 2*share
}

// The sign test's intervals as textbooks print them (ranks and levels of the
// narrowest interval of at least 95%; they follow from the binomial table with
// p = 1/2, for instance Conover's Table A3).
func TestRanksOfPrintedTables(t *testing.T) {
	for _, c := range []struct {
		n, rank int
		level   float64 // percent, one decimal
	}{
		{6, 1, 96.9}, {7, 1, 98.4}, {8, 1, 99.2}, {9, 2, 96.1}, {10, 2, 97.9}, {11, 2, 98.8}, {12, 3, 96.1}, {13, 3, 97.8},
		{14, 3, 98.7}, {15, 4, 96.5}, {16, 4, 97.9}, {17, 5, 95.1}, {18, 5, 96.9}, {19, 5, 98.1}, {20, 6, 95.9},
	} {
		rank, weight := signRank(c.n)
		assert.Equal(t, c.rank, rank, "n = %d: rank", c.n)
		if got := 100 * levelOf(c.n, c.rank); math.Abs(got-c.level) > 0.051 {
			t.Errorf("n = %d, rank %d: level %.2f%%, want %.1f%%", c.n, c.rank, got, c.level)
		}
		if weight < 0 || weight >= 1 {
			t.Errorf("n = %d: weight %v", c.n, weight)
		}
	}
}

// The ranks hold their level, and the next inner ones do not, for small n and
// large; and the weight is the paper's formula from exact levels.
func TestSignRankAgainstExactSums(t *testing.T) {
	for _, n := range []int{6, 7, 8, 9, 10, 25, 59, 60, 100, 363, 364, 365, 1000, 2999, 20_000} {
		rank, weight := signRank(n)
		outer, inner := levelOf(n, rank), levelOf(n, rank+1)
		if outer < 0.95 || inner >= 0.95 {
			t.Errorf("n = %d: rank %d has %v, the next inner one %v", n, rank, outer, inner)
		}
		d, all := float64(rank), float64(n)
		i := (outer - 0.95) / (outer - inner)
		if want := (all - d) * i / (d + (all-2*d)*i); math.Abs(weight-want) > 1e-7 {
			t.Errorf("n = %d: weight %v, want %v", n, weight, want)
		}
	}
}

// Altman, Machin, Bryant, Gardner (2000): Statistics with Confidence, 2nd ed.,
// p. 38: eleven concentrations, whose exact interval (98.8%) is the 2nd to the 10th.
// The interpolated one of Hettmansperger and Sheather lies 0.9178 of the way to the
// 3rd and 9th, from the exact levels 1 - 24/2048 and 1 - 134/2048.
func TestPublishedSample(t *testing.T) {
	xs := []float64{66, 71.2, 83, 83.6, 101, 107.6, 122, 143, 160, 177, 414}
	e := Interval(xs)
	if e.Median != 107.6 || math.Abs(e.Lo-82.02997) > 1e-5 || math.Abs(e.Hi-161.39750) > 1e-5 || e.N != 11 || e.Warning != "" {
		t.Errorf("%#v", e)
	}
	// With a tie it is the printed one.
	xs[10] = 177
	if e := Interval(xs); e.Lo != 71.2 || e.Hi != 177 {
		t.Errorf("with a tie: %#v", e)
	}
}

// Bonett and Price (2002) compare medians by a variance estimate; their R package
// statpsych prints for these samples (ci.median2, 95%) -8.85 and -17.660 to
// -0.040. Another method: it must agree on what it estimates, and about on the size.
func TestDifferenceNearThePublishedOne(t *testing.T) {
	a := []float64{32.1, 39.8, 26.3, 35.0, 43.1, 27.0, 40.9, 37.4, 34.0, 29.2}
	b := []float64{36.8, 44.0, 47.1, 42.7, 49.0, 39.6, 46.2, 31.6, 33.1, 48.4}
	e := Difference(a, b)
	if width := (e.Hi - e.Lo) / (17.660 - 0.040); !near(e.Median, -8.85) || e.Hi >= 0 || width < 0.8 || width > 1.2 || e.N != 10 {
		t.Errorf("%#v", e)
	}
}

// The smoothed Bayesian bootstrap (Banks 1988), drawn: Dirichlet weights on the
// gaps, evenly within each. The interval must cut 2.5% off its medians on both
// sides, but for the interpolation, which is not that of a straight line.
func TestIntervalIsTheLimitOfTheSmoothedBootstrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, n := range []int{6, 7, 8, 11, 20, 45} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = rng.Float64()
		}
		slices.Sort(xs)
		e := Interval(xs)
		const draws = 20_000
		below, above := 0, 0
		weights := make([]float64, n+1)
		for range draws {
			sum := 0.0
			for i := range weights {
				weights[i] = rng.ExpFloat64()
				sum += weights[i]
			}
			m := smoothedMedian(xs, weights, sum/2)
			if m < e.Lo {
				below++
			}
			if m > e.Hi {
				above++
			}
		}
		for side, count := range map[string]int{"below": below, "above": above} {
			if share := float64(count) / draws; math.Abs(share-0.025) > 0.006 {
				t.Errorf("n = %d: %.2f%% of the bootstrap's medians lie %s the interval", n, 100*share, side)
			}
		}
	}
}

// smoothedMedian is where half of the weight is reached; weights[i] lies before
// sorted[i], the last one behind all.
func smoothedMedian(sorted, weights []float64, half float64) float64 {
	for i, w := range weights {
		if half <= w {
			switch i {
			case 0:
				return math.Inf(-1)
			case len(sorted):
				return math.Inf(1)
			}
			return sorted[i-1] + half/w*(sorted[i]-sorted[i-1])
		}
		half -= w
	}
	return math.Inf(1)
}

// Why not the plain percentile bootstrap: for odd n its limit takes the order
// statistic k at which P(Binomial(n, k/n) > n/2) passes 2.5% (Efron 1979), and
// what that covers is known.
func TestPlainPercentileBootstrapFallsShort(t *testing.T) {
	for _, c := range []struct {
		n     int
		level float64
	}{{7, 0.875}, {13, 0.9077}, {23, 0.9069}, {33, 0.9199}} {
		k := 1
		for upper(c.n, float64(k)/float64(c.n)) <= tail {
			k++
		}
		if got := levelOf(c.n, k); math.Abs(got-c.level) > 1e-4 {
			t.Errorf("n = %d: value %d, level %.4f, want %.4f", c.n, k, got, c.level)
		}
	}
}

// upper is P(B > n/2), B binomial with n and p.
func upper(n int, p float64) float64 {
	sum := 0.0
	for k := n/2 + 1; k <= n; k++ {
		c, _ := new(big.Float).SetInt(new(big.Int).Binomial(int64(n), int64(k))).Float64()
		sum += c * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
	}
	return sum
}
