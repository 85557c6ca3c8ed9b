package stats

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJudge(t *testing.T) {
	control := Estimate{Median: 1.001, Lo: 0.98, Hi: 1.015, N: 14}
	for _, c := range []struct {
		name            string
		effect, control Estimate
		neutral         float64
		want            Verdict
	}{
		{"clear", Estimate{Median: 1.074, Lo: 1.05, Hi: 1.092, N: 14}, control, 1, Verdict{Distinguishable: true, Floor: 0.02}},
		{"clear, below", Estimate{Median: 0.9, Lo: 0.88, Hi: 0.92, N: 14}, control, 1, Verdict{Distinguishable: true, Floor: 0.02}},
		{"clear difference", Estimate{Median: 5, Lo: 4, Hi: 6, N: 6}, Estimate{Lo: -1, Hi: 2, N: 6}, 0, Verdict{Distinguishable: true, Floor: 2}},
		{"holds 1", Estimate{Median: 1.04, Lo: 0.99, Hi: 1.09, N: 14}, control, 1,
			// 14·(0.05/0.04)²·1.4294² = 44.7: the effect needs 31 more, the floor fewer.
			Verdict{Floor: 0.02, Reason: "interval holds 1", MoreRounds: 31}},
		{"touches 0", Estimate{Median: 5, Lo: 0, Hi: 6, N: 6}, Estimate{N: 6}, 0,
			Verdict{Reason: "interval holds 0", MoreRounds: 7}},
		{"floor", Estimate{Median: 1.015, Lo: 1.01, Hi: 1.02, N: 14}, control, 1,
			// (0.02+0.4294·0.005)·√(14/(14+k)) = 0.015
			Verdict{Floor: 0.02, Reason: "within the noise floor of ±0.020", MoreRounds: 17}},
		{"at the floor", Estimate{Median: 1.5, Lo: 1.5, Hi: 1.5, N: 8}, Estimate{Median: 1, Lo: 0.5, Hi: 1.25, N: 8}, 1,
			Verdict{Floor: 0.5, Reason: "within the noise floor of ±0.50", MoreRounds: 1}},
		{"few pairs", Estimate{Median: 2, Lo: 1.9, Hi: 2.1, N: 4}, control, 1,
			Verdict{Floor: 0.02, Reason: "need >= 6 pairs, have 4", MoreRounds: 2}},
		{"few pairs of the control", Estimate{Median: 2, Lo: 1.9, Hi: 2.1, N: 9}, Estimate{Median: 1, Lo: 1, Hi: 1, N: 1}, 1,
			Verdict{Reason: "need >= 6 pairs of the control, have 1", MoreRounds: 5}},
		{"nothing", Estimate{}, Estimate{}, 1, Verdict{Reason: "need >= 6 pairs, have 0", MoreRounds: 6}},
		{"no effect at all", Estimate{Median: 1, Lo: 0.9, Hi: 1.1, N: 20}, control, 1,
			Verdict{Floor: 0.02, Reason: "interval holds 1", MoreRounds: MaxMoreRounds}},
		{"next to none", Estimate{Median: 1.0001, Lo: 0.9, Hi: 1.1, N: 20}, control, 1,
			Verdict{Floor: 0.02, Reason: "interval holds 1", MoreRounds: MaxMoreRounds}},
		{"clear of a biased control", Estimate{Median: 1.2, Lo: 1.1, Hi: 1.3, N: 20}, Estimate{Median: 1.05, Lo: 1.02, Hi: 1.08, N: 20}, 1,
			Verdict{Distinguishable: true, Floor: 0.08000000000000007, Warning: "the control's own interval excludes 1"}},
		// A bias is no noise: it does not shrink, and hides what is smaller for ever.
		{"less than a control's bias", Estimate{Median: 1.04, Lo: 1.03, Hi: 1.05, N: 20}, Estimate{Median: 1.05, Lo: 1.02, Hi: 1.08, N: 20}, 1,
			Verdict{Floor: 0.08000000000000007, Reason: "within the noise floor of ±0.080", Warning: "the control's own interval excludes 1", MoreRounds: MaxMoreRounds}},
	} {
		got := Judge(c.effect, c.control, c.neutral)
		assert.True(t, near(got.Floor, c.want.Floor), "%s: floor %v, want %v", c.name, got.Floor, c.want.Floor)
		got.Floor = c.want.Floor
		assert.Equal(t, c.want, got, c.name)
	}
}

// rounds are paired ratios of one more comparison: lognormal, as ratios of
// throughputs are.
func rounds(r *rand.Rand, n int, median float64) []float64 {
	draw := lognormal(0.05)
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = median * draw(r)
	}
	return xs
}

// MoreRounds keeps its word: of experiments that are open after ten rounds,
// about four in five are settled by as many more as it says, if the effect is
// what it seemed to be; and far fewer by a quarter of them.
func TestMoreRoundsSettle(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	open, settled, early := 0, 0, 0
	for open < 600 {
		effect, control := rounds(rng, 10, 1.03), rounds(rng, 10, 1)
		seen := Interval(effect)
		v := Judge(seen, Interval(control), 1)
		if v.Distinguishable || v.MoreRounds > 1000 || v.Warning != "" {
			continue
		}
		open++
		judge := func(more int) bool {
			e := append(rounds(rng, more, seen.Median), effect...)
			c := append(rounds(rng, more, 1), control...)
			return Judge(Interval(e), Interval(c), 1).Distinguishable
		}
		if judge(v.MoreRounds) {
			settled++
		}
		if judge(v.MoreRounds / 4) {
			early++
		}
	}
	t.Logf("settled: %d%%, by a quarter of the rounds: %d%%", 100*settled/open, 100*early/open)
	if share := float64(settled) / float64(open); share < 0.70 || share > 0.95 {
		t.Errorf("%.0f%% were settled by MoreRounds", 100*share)
	}
	if share := float64(early) / float64(open); share > 0.45 {
		t.Errorf("%.0f%% were settled by a quarter of MoreRounds", 100*share)
	}
}

// Where there is no effect, a verdict may find one in one experiment of forty
// for each side at the most: both interval and floor must fail.
func TestJudgeSeldomFindsWhatIsNotThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, n := range []int{6, 10, 30} {
		const sets = 4000
		found := 0
		for range sets {
			if Judge(Interval(rounds(rng, n, 1)), Interval(rounds(rng, n, 1)), 1).Distinguishable {
				found++
			}
		}
		share := 100 * float64(found) / sets
		t.Logf("n = %d: %.2f%%", n, share)
		assert.LessOrEqual(t, share, 5.0, "n = %d: %% of experiments without an effect that found one", n)
	}
}

// What there is, and is twice the floor, is found.
func TestJudgeFindsWhatIsThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	found := 0
	for range 1000 {
		if Judge(Interval(rounds(rng, 20, 0.9)), Interval(rounds(rng, 20, 1)), 1).Distinguishable {
			found++
		}
	}
	assert.GreaterOrEqual(t, found, 950)
}
