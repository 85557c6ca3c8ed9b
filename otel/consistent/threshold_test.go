package consistent

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The specification's table "Converting floating-point probability to threshold
// value": 1-in-N with 3, 4 and 5 digits of precision.
func TestRoundGivesTheTableOfTheSpecification(t *testing.T) {
	for _, c := range []struct {
		n    float64
		want [3]string
	}{
		{1, [3]string{"0", "0", "0"}},
		{2, [3]string{"8", "8", "8"}},
		{3, [3]string{"aab", "aaab", "aaaab"}},
		{4, [3]string{"c", "c", "c"}},
		{5, [3]string{"ccd", "cccd", "ccccd"}},
		{8, [3]string{"e", "e", "e"}},
		{10, [3]string{"e66", "e666", "e6666"}},
		{16, [3]string{"f", "f", "f"}},
		{100, [3]string{"fd71", "fd70a", "fd70a4"}},
		{1000, [3]string{"ffbe7", "ffbe77", "ffbe76d"}},
		{10000, [3]string{"fff972", "fff9724", "fff97247"}},
		{100000, [3]string{"ffff584", "ffff583a", "ffff583a5"}},
		{1000000, [3]string{"ffffef4", "ffffef39", "ffffef391"}},
	} {
		for i, want := range c.want {
			assert.Equal(t, want, FromProbability(1/c.n).Round(3+i).String(), "1 in %g, precision %d", c.n, 3+i)
		}
	}
}

func TestFromProbabilityAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		p    float64
		want Threshold
	}{
		{0, Never}, {-1, Never}, {math.NaN(), Never}, {math.Inf(-1), Never},
		{1, Always}, {2, Always}, {math.Inf(1), Always},
		{0.5, 1 << 55},
		{math.Ldexp(1, -56), Never - 1},
		{math.Ldexp(1, -57), Never - 1}, // half is rounded away from zero
		{math.Nextafter(math.Ldexp(1, -57), 0), Never},
		{math.SmallestNonzeroFloat64, Never},
		{math.Nextafter(1, 0), 8}, // 1 - 2^-53
	} {
		if got := FromProbability(c.p); got != c.want {
			t.Errorf("FromProbability(%g) = %#x, want %#x", c.p, uint64(got), uint64(c.want))
		}
	}
}

func TestProbabilityIsWithinTheLastBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		p := math.Exp2(-56 * r.Float64())
		got := FromProbability(p).Probability()
		require.InDelta(t, p, got, math.Ldexp(1, -57))
		if p >= 1.0/16 && got != p { // there a float64 has no bits below 2^-56
			t.Fatalf("p = %g comes back as %g, though it can be exact", p, got)
		}
	}
}

func TestRoundKeepsItsPrecision(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		th := Never - Threshold(1+r.Uint64N(1<<r.UintN(57)))
		for n := range 16 {
			got := th.Round(n)
			require.Less(t, got, Never, "%v.Round(%d) samples nothing", th, n)
			p, rounded := th.Probability(), got.Probability()
			// Half a unit of the last digit, of a number whose first digit is
			// worth at least p/16 of the whole.
			if limit := p * math.Ldexp(0.5, -4*(max(n, 1)-1)); math.Abs(rounded-p) > limit {
				t.Fatalf("%v.Round(%d) = %v: probability %g became %g", th, n, got, p, rounded)
			}
			if again := got.Round(n); again != got {
				t.Fatalf("%v.Round(%d) = %v, and once more %v", th, n, got, again)
			}
		}
		require.Equal(t, th, th.Round(14))
	}
	if Never.Round(4) != Never || (Never+5).Round(1) < Never {
		t.Error("Never does not stay Never")
	}
}

func TestNewRateIsWithinItsStatedError(t *testing.T) {
	for p := 1.0; p > 1e-12; p *= 0.9973 {
		got := NewRate(p).Threshold().Probability()
		if math.Abs(got-p)/p > 1.0/(1<<13) {
			t.Fatalf("rate of %g is %g", p, got)
		}
	}
}

func TestAdjustedCount(t *testing.T) {
	for _, c := range []struct {
		th   Threshold
		want float64
	}{{Always, 1}, {1 << 55, 2}, {0xc0 << 48, 4}, {Never - 1, math.Ldexp(1, 56)}, {Never, 0}, {Never + 1, 0}} {
		assert.Equal(t, c.want, AdjustedCount(c.th), "AdjustedCount(%v)", c.th)
	}
}

func TestStringAndParseThreshold(t *testing.T) {
	for _, c := range []struct {
		text string
		want Threshold
		back string
	}{
		{"0", 0, "0"}, {"00000000000000", 0, "0"}, {"8", 1 << 55, "8"}, {"C", 0xc << 52, "c"},
		{"08", 8 << 48, "08"}, {"00000000000001", 1, "00000000000001"},
		{"fd70a4", 0xfd70a4 << 32, "fd70a4"}, {"ffffffffffffff", Never - 1, "ffffffffffffff"},
		{"80000000000000", 1 << 55, "8"},
	} {
		th, ok := ParseThreshold(c.text)
		if !ok || th != c.want || th.String() != c.back {
			t.Errorf("%q is %#x (%v), written %q; want %#x, %q", c.text, uint64(th), ok, th, uint64(c.want), c.back)
		}
	}
	for _, bad := range []string{"", "g", "-1", "+1", "0x1", "1_0", " 1", "1 ", "000000000000000", "100000000000000", "é", "never"} {
		if th, ok := ParseThreshold(bad); ok {
			t.Errorf("%q is accepted as %v", bad, th)
		}
	}
	if _, ok := ParseThreshold(Never.String()); ok {
		t.Error("the text of Never is a threshold")
	}
}

// What a smaller probability samples, a larger one does.
func TestConsistency(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		p, q := r.Float64(), math.Exp2(-40*r.Float64())
		if p > q {
			p, q = q, p
		}
		low, high := FromProbability(p), FromProbability(q)
		v := Randomness(r.Uint64() >> 8)
		if low.Samples(v) && !high.Samples(v) {
			t.Fatalf("%v is sampled at %g and not at %g", v, p, q)
		}
		if low.Round(4).Samples(v) && !high.Round(4).Samples(v) {
			t.Fatalf("rounded: %v is sampled at %g and not at %g", v, p, q)
		}
	}
	for _, v := range []Randomness{0, 1, Randomness(Never - 1)} {
		if !Always.Samples(v) || Never.Samples(v) {
			t.Errorf("%v: Always %v, Never %v", v, Always.Samples(v), Never.Samples(v))
		}
	}
}

func FuzzThreshold(f *testing.F) {
	for _, s := range []string{"0", "fd70a4", "ffffffffffffff", "", "G", "00000000000001", "100000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		th, ok := ParseThreshold(s)
		if !ok {
			return
		}
		require.Less(t, th, Never, "%q is %#x", s, uint64(th))
		if again, ok := ParseThreshold(th.String()); !ok || again != th {
			t.Fatalf("%q is %v, written and read again %v", s, th, again)
		}
		require.LessOrEqual(t, len(th.String()), len(s), "%q is written longer: %q", s, th)
	})
}
