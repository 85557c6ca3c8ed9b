package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// population is what samples are drawn from, and its true median.
type population struct {
	name   string
	median float64
	draw   func(*rand.Rand) float64
}

func lognormal(sigma float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return math.Exp(sigma * r.NormFloat64()) }
}

var continuous = []population{
	{"normal", 0, (*rand.Rand).NormFloat64},
	{"lognormal 0.5", 1, lognormal(0.5)},
	{"lognormal 1", 1, lognormal(1)},
	{"uniform", 0.5, (*rand.Rand).Float64},
	{"exponential", math.Ln2, (*rand.Rand).ExpFloat64},
	{"Laplace", 0, func(r *rand.Rand) float64 { return r.ExpFloat64() * float64(2*r.IntN(2)-1) }},
	{"5% outliers on both sides", 0, func(r *rand.Rand) float64 {
		if r.Float64() < 0.05 {
			return 10 * r.NormFloat64()
		}
		return r.NormFloat64()
	}},
	// The outliers lie above all the rest but 1 in 10^5 of it, so the median is
	// the rest's quantile 0.5/0.9.
	{"10% outliers on one side", math.Sqrt2 * math.Erfinv(2*0.5/0.9-1), func(r *rand.Rand) float64 {
		if r.Float64() < 0.1 {
			return 8 + r.NormFloat64()
		}
		return r.NormFloat64()
	}},
}

var discrete = []population{
	{"normal in steps of sigma", 10, func(r *rand.Rand) float64 { return math.Round(10 + r.NormFloat64()) }},
	{"normal in steps of sigma/3", 10, func(r *rand.Rand) float64 { return math.Round(10 + 3*r.NormFloat64()) }},
	{"geometric", 1, func(r *rand.Rand) float64 { return math.Floor(2 * r.ExpFloat64()) }},
	// Little more than half of the values do not exceed the median.
	{"0 or 1", 0, func(r *rand.Rand) float64 { return math.Floor(r.Float64() + 0.48) }},
	{"heavy at the median", 0, func(r *rand.Rand) float64 {
		switch u := r.Float64(); {
		case u < 0.1:
			return -1
		case u < 0.52:
			return 0
		default:
			return math.Ceil((u - 0.52) / 0.06)
		}
	}},
}

// simulations is how many samples each coverage is found from. With 3,000 its
// standard error is 0.4%; more are drawn for the figures in the package comment:
// STATS_SIMULATIONS=50000 go test -v -run Coverage.
func simulations(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("STATS_SIMULATIONS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	return 3000
}

// covered is the share of simulated estimates that hold the truth, in percent.
// Its draws depend on the seed alone.
func covered(t *testing.T, seed uint64, truth float64, once func(*rand.Rand) Estimate) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0xc0fe))
	held, sims := 0, simulations(t)
	for range sims {
		// Sums and ratios of equal values may be off by a rounding error.
		if e := once(rng); e.Lo <= truth+1e-12 && truth-1e-12 <= e.Hi {
			held++
		}
	}
	return 100 * float64(held) / float64(sims)
}

// bounds remembers the extremes of a test's coverages.
type bounds struct{ least, most float64 }

func (b *bounds) check(t *testing.T, what string, share float64, upper float64) {
	t.Helper()
	if b.most == 0 {
		b.least = 100
	}
	b.least, b.most = min(b.least, share), max(b.most, share)
	if share < 93 || share > upper {
		t.Errorf("%s: the 95%% interval held the truth in %.1f%%", what, share)
	}
}

func fill(r *rand.Rand, xs []float64, draw func(*rand.Rand) float64) []float64 {
	for i := range xs {
		xs[i] = draw(r)
	}
	return xs
}

func TestCoverageOfInterval(t *testing.T) {
	check := func(kind string, populations []population, upper float64) {
		var b bounds
		for _, p := range populations {
			for _, n := range []int{6, 7, 8, 9, 10, 11, 15, 20, 31, 60} {
				xs := make([]float64, n)
				share := covered(t, 1, p.median, func(r *rand.Rand) Estimate { return Interval(fill(r, xs, p.draw)) })
				b.check(t, fmt.Sprintf("%s, n = %d", p.name, n), share, upper)
			}
		}
		t.Logf("%s: %.1f%% to %.1f%%", kind, b.least, b.most)
	}
	check("continuous", continuous, 97)
	check("with ties", discrete, 100)
}

// Rounds drift as a random walk, by more than the effect; what pairs share goes
// out, and a[i] and b[i] have noise of their own.
func TestCoverageOfPairs(t *testing.T) {
	for _, c := range []struct {
		name  string
		noise func(*rand.Rand) float64
	}{
		{"lognormal 0.05", lognormal(0.05)},
		{"lognormal 0.5", lognormal(0.5)},
		{"exponential", (*rand.Rand).ExpFloat64},
		{"5% slow windows", func(r *rand.Rand) float64 {
			x := math.Exp(0.02 * r.NormFloat64())
			if r.Float64() < 0.05 {
				x *= 1.5
			}
			return x
		}},
	} {
		var ratios, diffs bounds
		for _, n := range []int{6, 7, 8, 10, 14, 30, 60} {
			a, b, c2 := make([]float64, n), make([]float64, n), make([]float64, n)
			rounds := func(r *rand.Rand) {
				drift := 0.0
				for i := range a {
					drift += 0.1 * r.NormFloat64()
					machine, noise := math.Exp(drift), c.noise(r)
					b[i] = machine * c.noise(r)
					a[i] = 1.07 * machine * noise
					c2[i] = b[i] + 3 + c.noise(r) - c.noise(r)
				}
			}
			ratios.check(t, fmt.Sprintf("ratio, %s, n = %d", c.name, n), covered(t, 2, 1.07, func(r *rand.Rand) Estimate {
				rounds(r)
				return RatioInterval(a, b)
			}), 97)
			diffs.check(t, fmt.Sprintf("difference, %s, n = %d", c.name, n), covered(t, 3, 3, func(r *rand.Rand) Estimate {
				rounds(r)
				return PairedDifference(c2, b)
			}), 97)
		}
		t.Logf("%s: ratios %.1f%% to %.1f%%, differences %.1f%% to %.1f%%", c.name, ratios.least, ratios.most, diffs.least, diffs.most)
	}
}

// Two independent samples of equal and unequal size, of which one has as much or
// four times the spread of the other.
func TestCoverageOfDifference(t *testing.T) {
	sizes := [][2]int{{6, 6}, {7, 7}, {9, 9}, {15, 15}, {6, 20}, {20, 6}, {10, 40}}
	check := func(kind string, populations []population, upper float64) {
		var b bounds
		for _, p := range populations {
			for _, size := range sizes {
				for _, scale := range []float64{1, 4} {
					xs, ys := make([]float64, size[0]), make([]float64, size[1])
					share := covered(t, 4, (scale-1)*p.median, func(r *rand.Rand) Estimate {
						fill(r, xs, p.draw)
						for i := range xs {
							xs[i] *= scale
						}
						return Difference(xs, fill(r, ys, p.draw))
					})
					b.check(t, fmt.Sprintf("%s, n = %v, spread %v", p.name, size, scale), share, upper)
				}
			}
		}
		t.Logf("%s: %.1f%% to %.1f%%", kind, b.least, b.most)
	}
	check("continuous", continuous, 97)
	check("with ties", discrete, 100)
}

// What the two rules beside the formulas are for: without them the intervals of
// six values would miss the bounds that the tests above keep.
func TestCoverageWithoutCorrections(t *testing.T) {
	xs, ys := make([]float64, 6), make([]float64, 6)
	share := covered(t, 6, 0, func(r *rand.Rand) Estimate {
		a, b := Interval(fill(r, xs, (*rand.Rand).NormFloat64)), Interval(fill(r, ys, (*rand.Rand).NormFloat64))
		return minus(side{a, true}, side{b, true}) // as if tied: without the root
	})
	assert.GreaterOrEqual(t, share, 97.0)
	share = covered(t, 7, 0, func(r *rand.Rand) Estimate {
		slices.Sort(fill(r, xs, discrete[len(discrete)-1].draw))
		_, weight := signRank(len(xs))
		return Estimate{Lo: between(xs[0], xs[1], weight), Hi: between(xs[5], xs[4], weight)}
	})
	assert.LessOrEqual(t, share, 93.0)
}
