package stats

import (
	"fmt"
	"math"
	"sort"
)

// MaxMoreRounds is the greatest Verdict.MoreRounds. It stands for that many
// rounds, for more, and for an effect that no number of rounds would make
// distinguishable.
const MaxMoreRounds = 10_000

// power80 is how much wider than the half-width of a 95% interval the gap must
// be for four repetitions in five to see it: the normal distribution's 80% point
// by its 97.5% point.
const power80 = 0.8416212335729143 / z975

// Verdict says whether an effect can be told from noise, and if not, why.
type Verdict struct {
	Distinguishable bool `json:"distinguishable"`
	// Floor is the noise floor: how far the control, which compares like with
	// like, may be from neutral. In the unit of the estimates, >= 0.
	Floor float64 `json:"floor"`
	// Reason why the effect is not distinguishable; "" if it is.
	Reason string `json:"reason,omitempty"`
	// Warning is not empty if the control itself differs from neutral: one time
	// in twenty by chance, else because the order or place of a run matters.
	Warning string `json:"warning,omitempty"`
	// MoreRounds estimates how many more rounds, of effect and control both,
	// would make the effect distinguishable, provided that its median is right:
	// 0 if it is distinguishable already, else 1 to MaxMoreRounds. See Judge.
	MoreRounds int `json:"more_rounds,omitempty"`
}

// Judge compares an effect with the control, an A/A comparison measured beside
// it. Neutral is what "no effect" is: 1 for ratios, 0 for differences. An
// effect is distinguishable if it is statistically significant (its 95%
// interval excludes neutral), its median is farther from neutral than the noise
// floor (the farther end of the control's interval), and both have MinSamples.
// It is a verdict on whether there is an effect, not on whether it matters; and
// "not distinguishable" does not mean "none".
//
// MoreRounds assumes that the effect's median m = |median - neutral| and the
// spread stay as they are. Then after k more rounds the half-width h of the
// effect's interval, on the side of neutral, is h(k) = h·√(n/(n+k)). The floor f
// shrinks likewise as long as the control's interval holds neutral; else the
// control's median stays, b from neutral, and only the rest shrinks. The k
// returned is the least with
//
//	m >= h(k) + c·h(k)  and  m >= f(k) + c·h(k),  c = 0.84/1.96
//
// where c·h(k) is one normal 80% point: without it the new median would fall
// short by chance every other time. It is an order of magnitude: with few rounds
// the median may be far from where it will settle.
func Judge(effect, control Estimate, neutral float64) Verdict {
	v := Verdict{}
	if control.N > 0 {
		v.Floor = max(math.Abs(control.Lo-neutral), math.Abs(control.Hi-neutral))
	}
	if control.N >= MinSamples && !holds(control, neutral) {
		v.Warning = fmt.Sprintf("the control's own interval excludes %g", neutral)
	}
	gap := math.Abs(effect.Median - neutral)
	switch {
	case effect.N < MinSamples:
		v.Reason = fmt.Sprintf("need >= %d pairs, have %d", MinSamples, effect.N)
	case control.N < MinSamples:
		v.Reason = fmt.Sprintf("need >= %d pairs of the control, have %d", MinSamples, control.N)
	case holds(effect, neutral):
		v.Reason = fmt.Sprintf("interval holds %g", neutral)
	case gap <= v.Floor:
		v.Reason = "within the noise floor of ±" + number(v.Floor, decimals(v.Floor))
	default:
		v.Distinguishable = true
		return v
	}
	v.MoreRounds = moreRounds(effect, control, neutral)
	return v
}

func holds(e Estimate, x float64) bool { return e.Lo <= x && x <= e.Hi }

func moreRounds(effect, control Estimate, neutral float64) int {
	least := max(1, MinSamples-effect.N, MinSamples-control.N)
	if effect.N == 0 || control.N == 0 {
		return least // nothing is known yet
	}
	gap := math.Abs(effect.Median - neutral)
	half := effect.Median - effect.Lo
	if effect.Median < neutral {
		half = effect.Hi - effect.Median
	}
	floor := max(math.Abs(control.Lo-neutral), math.Abs(control.Hi-neutral))
	stays := 0.0
	if !holds(control, neutral) {
		stays = math.Abs(control.Median - neutral)
	}
	settled := func(k int) bool {
		h := half * shrink(effect.N, k)
		f := stays + (floor-stays)*shrink(control.N, k)
		return gap > 0 && gap >= max(h, f)+power80*h
	}
	// The condition gets only easier with k.
	k := least + sort.Search(MaxMoreRounds-least, func(i int) bool { return settled(least + i) })
	return min(k, MaxMoreRounds)
}

// shrink is what remains of a half-width of n values after k more.
func shrink(n, k int) float64 { return math.Sqrt(float64(n) / float64(n+k)) }
