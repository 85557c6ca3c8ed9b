package stats

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		in := slices.Clone(c.in)
		assert.Equal(t, c.want, Median(c.in), "Median(%v)", in)
		assert.Equal(t, c.in, in, "Median changed its argument")
	}
}

func TestRatioInterval(t *testing.T) {
	a := []float64{10, 20, 30, 40, 50, 60, 70}
	b := []float64{5, 10, 15, 20, 25, 30, 35}
	assert.Equal(t, (Ratio{Median: 2, Lo: 2, Hi: 2, N: 7}), RatioInterval(a, b), "constant ratio")
	// Six ratios 0.5, 1, 1.5, 2, 2.5, 3 without a tie: the interpolation of
	// Hettmansperger and Sheather goes 5/14 of the way to the second one.
	r := RatioInterval([]float64{1, 4, 2, 3, 6, 5}, []float64{2, 2, 2, 2, 2, 2})
	if r.Median != 1.75 || !near(r.Lo, 0.5+0.5*5/14) || !near(r.Hi, 3-0.5*5/14) || r.N != 6 || r.Warning != "" {
		t.Errorf("six pairs: %#v", r)
	}
}

func TestPairedDifference(t *testing.T) {
	// A drift that both sides share does not widen the interval.
	a := []float64{101, 202, 303, 404, 505, 606, 707}
	b := []float64{100, 200, 300, 400, 500, 600, 700}
	d := PairedDifference(a, b)
	if d.Median != 4 || d.Lo < 1 || d.Hi > 7 || d.N != 7 || d.Warning != "" {
		t.Errorf("%#v", d)
	}
	if few := PairedDifference(a[:3], b); few.N != 3 || few.Lo != 1 || few.Hi != 3 ||
		few.Warning != "need >= 6 pairs: minimum to maximum holds the median with 75%, not 95%; 4 pairs without a finite value left out" {
		t.Errorf("%#v", few)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestFewOrUnusableSamplesWarnAndStayFinite(t *testing.T) {
	huge := []float64{-math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}
	lowered := []float64{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, 1}
	six := []float64{1, 2, 3, 4, 5, 6}
	for name, e := range map[string]Estimate{
		"none":          RatioInterval(nil, nil),
		"one":           RatioInterval([]float64{1}, []float64{2}),
		"zero divisor":  RatioInterval([]float64{1, 0, 3, 4, 5, 6}, []float64{0, 0, 3, 4, 5, 6}),
		"no partner":    RatioInterval([]float64{1, 2, 3, 4, 5, 6, 7}, six),
		"NaN":           Interval([]float64{math.NaN(), math.Inf(1), 1}),
		"overflow":      PairedDifference(huge, lowered),
		"two, none":     Difference(nil, six),
		"two, few":      Difference(six, six[:5]),
		"two, NaN":      Difference(append(slices.Clone(six), math.NaN()), six),
		"two, overflow": Difference(huge, lowered),
	} {
		if !finite(e.Median) || !finite(e.Lo) || !finite(e.Hi) {
			t.Errorf("%s: %#v is not finite", name, e)
		}
		if e.Warning == "" {
			t.Errorf("%s: no warning in %#v", name, e)
		}
		if e.N == 0 && (e.Median != 0 || e.Lo != 0 || e.Hi != 0) {
			t.Errorf("%s: values without n: %#v", name, e)
		}
	}
	for n, want := range []string{
		"need >= 6 pairs",
		"need >= 6 pairs: one value has no interval",
		"need >= 6 pairs: minimum to maximum holds the median with 50%, not 95%",
		"need >= 6 pairs: minimum to maximum holds the median with 75%, not 95%",
		"need >= 6 pairs: minimum to maximum holds the median with 87.5%, not 95%",
		"need >= 6 pairs: minimum to maximum holds the median with 93.8%, not 95%",
		"",
	} {
		e := PairedDifference(six[:n], make([]float64, n))
		assert.Equal(t, want, e.Warning, "n = %d: warning", n)
		if n > 0 && n < MinSamples && (e.Lo != 1 || e.Hi != float64(n)) {
			t.Errorf("n = %d: not minimum to maximum: %v", n, e)
		}
	}
	if e := Interval([]float64{1}); !strings.HasPrefix(e.Warning, "need >= 6 samples") {
		t.Errorf("warning %q", e.Warning)
	}
}

func TestTwoFewSamplesGiveTheWidestInterval(t *testing.T) {
	d := Difference([]float64{10, 12, 11}, []float64{1, 2, 3, 4, 5})
	if d.Median != 8 || d.Lo != 5 || d.Hi != 11 || d.N != 3 || d.Warning != "need >= 6 samples of each" {
		t.Errorf("%#v", d)
	}
}
