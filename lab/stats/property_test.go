package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples draws shapes, sizes and ties at random.
func samples(rng *rand.Rand) []float64 {
	xs := make([]float64, rng.IntN(40))
	step := []float64{0, 0, 0.5, 2}[rng.IntN(4)]
	for i := range xs {
		xs[i] = 5 * math.Exp(rng.NormFloat64())
		if step > 0 {
			xs[i] = step * math.Ceil(xs[i]/step)
		}
	}
	return xs
}

func mapped(xs []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = f(x)
	}
	return out
}

func same(a, b Estimate) bool {
	return near(a.Median, b.Median) && near(a.Lo, b.Lo) && near(a.Hi, b.Hi) && a.N == b.N && a.Warning == b.Warning
}

// moved is what an estimate must become if all values become factor*x + shift.
func moved(e Estimate, factor, shift float64) Estimate {
	e.Median, e.Lo, e.Hi = factor*e.Median+shift, factor*e.Lo+shift, factor*e.Hi+shift
	if factor < 0 {
		e.Lo, e.Hi = e.Hi, e.Lo
	}
	return e
}

func TestEstimatesFollowTheirValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 1500 {
		a, b := samples(rng), samples(rng)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		keepA, keepB := slices.Clone(a), slices.Clone(b)
		// Powers of two, and shifts that keep all digits, make and break no ties.
		double := func(x float64) float64 { return 2 * x }
		minus4 := func(x float64) float64 { return -4 * x }
		in, diff := Interval(a), Difference(a, b)
		for name, ok := range map[string]bool{
			"interval, scale":            same(Interval(mapped(a, double)), moved(in, 2, 0)),
			"interval, mirror":           same(Interval(mapped(a, minus4)), moved(in, -4, 0)),
			"difference, scale":          same(Difference(mapped(a, double), mapped(b, double)), moved(diff, 2, 0)),
			"difference, mirror":         same(Difference(mapped(a, minus4), mapped(b, minus4)), moved(diff, -4, 0)),
			"difference, exchange":       same(Difference(b, a), moved(diff, -1, 0)),
			"paired ratio, common drift": same(RatioInterval(mapped(a, double), mapped(b, double)), RatioInterval(a, b)),
			"interval, in order":         in.Lo <= in.Median && in.Median <= in.Hi,
			"difference, in order":       diff.Lo <= diff.Median && diff.Median <= diff.Hi,
			"arguments untouched":        slices.Equal(a, keepA) && slices.Equal(b, keepB),
		} {
			require.True(t, ok, "set %d: %s: %v and %v: %v, %v", i, name, a, b, in, diff)
		}
		rng.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] })
		rng.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		if Interval(a) != in || Difference(a, b) != diff {
			t.Fatalf("set %d: the order of %v or %v matters", i, a, b)
		}
	}
}

func TestEstimatesShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		a := mapped(make([]float64, 1+rng.IntN(30)), func(float64) float64 { return float64(rng.IntN(1000)) })
		b := mapped(make([]float64, 1+rng.IntN(30)), func(float64) float64 { return float64(rng.IntN(1000)) })
		up := func(x float64) float64 { return x + 4096 }
		if in := Interval(a); !same(Interval(mapped(a, up)), moved(in, 1, 4096)) {
			t.Fatalf("interval of %v: %v", a, in)
		}
		if d := Difference(a, b); !same(Difference(mapped(a, up), b), moved(d, 1, 4096)) {
			t.Fatalf("difference of %v and %v: %v", a, b, d)
		}
	}
}

// Whatever is thrown at them, estimates are finite and in order.
func TestEstimatesStayFinite(t *testing.T) {
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64,
		1e-300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}
	rng := rand.New(rand.NewPCG(7, 8))
	draw := func() []float64 {
		xs := make([]float64, rng.IntN(12))
		for i := range xs {
			xs[i] = odd[rng.IntN(len(odd))]
			if rng.IntN(2) == 0 {
				xs[i] = rng.NormFloat64()
			}
		}
		return xs
	}
	for range 10_000 {
		a, b := draw(), draw()
		for name, e := range map[string]Estimate{
			"Interval": Interval(a), "RatioInterval": RatioInterval(a, b), "PairedDifference": PairedDifference(a, b),
			"Difference": Difference(a, b),
		} {
			if !finite(e.Median) || !finite(e.Lo) || !finite(e.Hi) || e.Lo > e.Median || e.Median > e.Hi {
				t.Fatalf("%s of %v, %v: %#v", name, a, b, e)
			}
			if e.N < MinSamples && e.Warning == "" {
				t.Fatalf("%s of %v, %v: no warning: %#v", name, a, b, e)
			}
		}
	}
}

func BenchmarkInterval(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	xs := mapped(make([]float64, 30), func(float64) float64 { return rng.NormFloat64() })
	b.ReportAllocs()
	for b.Loop() {
		Interval(xs)
	}
}

func BenchmarkDifference(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	xs := mapped(make([]float64, 30), func(float64) float64 { return rng.NormFloat64() })
	ys := mapped(make([]float64, 30), func(float64) float64 { return rng.NormFloat64() })
	b.ReportAllocs()
	for b.Loop() {
		Difference(xs, ys)
	}
}
