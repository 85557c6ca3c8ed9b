package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		in := append([]float64(nil), c.in...)
		if got := Median(c.in); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", in, got, c.want)
		}
		for i := range in {
			if in[i] != c.in[i] {
				t.Errorf("Median changed its argument: %v to %v", in, c.in)
			}
		}
	}
}

func TestCountedMedianIsTheMedianOfTheResample(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + rng.IntN(9)
		sorted := make([]float64, n)
		for i := range sorted {
			sorted[i] = float64(i * i)
		}
		counts := make([]int, n)
		var drawn []float64
		for range n {
			i := rng.IntN(n)
			counts[i]++
			drawn = append(drawn, sorted[i])
		}
		if got, want := countedMedian(sorted, counts), Median(drawn); got != want {
			t.Fatalf("counts %v: %v, want %v", counts, got, want)
		}
	}
}

func TestRatioInterval(t *testing.T) {
	a := []float64{10, 20, 30, 40, 50, 60, 70}
	b := []float64{5, 10, 15, 20, 25, 30, 35}
	if got := RatioInterval(a, b, 1); got != (Ratio{Median: 2, Lo: 2, Hi: 2, N: 7}) {
		t.Errorf("constant ratio: %+v", got)
	}
	// A drift that both sides share must not widen the interval; the order of
	// the pairs must not matter to the median.
	r := RatioInterval([]float64{1, 4, 2, 3, 6, 5}, []float64{2, 2, 2, 2, 2, 2}, 1)
	if r.Median != 1.75 || r.Lo > r.Median || r.Hi < r.Median || r.N != 6 || r.Warning != "" {
		t.Errorf("six pairs: %+v", r)
	}
	if again := RatioInterval([]float64{1, 4, 2, 3, 6, 5}, []float64{2, 2, 2, 2, 2, 2}, 1); again != r {
		t.Errorf("equal seeds differ: %+v, %+v", r, again)
	}
}

func TestFewOrUnusableSamplesWarnAndStayFinite(t *testing.T) {
	for name, e := range map[string]Estimate{
		"none":         RatioInterval(nil, nil, 1),
		"one":          RatioInterval([]float64{1}, []float64{2}, 1),
		"zero divisor": RatioInterval([]float64{1, 0, 3, 4, 5, 6}, []float64{0, 0, 3, 4, 5, 6}, 1),
		"no partner":   RatioInterval([]float64{1, 2, 3, 4, 5, 6, 7}, []float64{1, 2, 3, 4, 5, 6}, 1),
		"NaN":          Interval([]float64{math.NaN(), math.Inf(1), 1}, 1),
	} {
		for _, x := range []float64{e.Median, e.Lo, e.Hi} {
			if !finite(x) {
				t.Errorf("%s: %+v is not finite", name, e)
			}
		}
		if e.Warning == "" {
			t.Errorf("%s: no warning in %+v", name, e)
		}
	}
	if e := RatioInterval([]float64{1, 2, 3, 4, 5}, []float64{1, 1, 1, 1, 1}, 1); e.Warning != "need >= 6 pairs" {
		t.Errorf("warning %q", e.Warning)
	}
	if e := Interval([]float64{1}, 1); !strings.HasPrefix(e.Warning, "need >= 6 samples") {
		t.Errorf("warning %q", e.Warning)
	}
}

// The interval must hold the true median about as often as it claims to. An
// interval too narrow (say, of the mean's standard error over ten) fails the
// lower bound, minimum-to-maximum fails the upper one.
func TestIntervalCoversTheTrueMedian(t *testing.T) {
	const sets, n, truth = 400, 15, 3.0
	rng := rand.New(rand.NewPCG(42, 42))
	covered := 0
	for i := range sets {
		xs := make([]float64, n)
		for j := range xs {
			// Skewed, as latencies are: exponential around its own median.
			xs[j] = truth + rng.ExpFloat64() - math.Ln2
		}
		if e := Interval(xs, uint64(i)); e.Lo <= truth && truth <= e.Hi {
			covered++
		}
	}
	share := float64(covered) / sets
	if share < 0.91 || share > 0.985 {
		t.Errorf("the 95%% interval held the true median in %.1f%% of %d sets", 100*share, sets)
	}
}
