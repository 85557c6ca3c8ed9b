package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

const noInterval = "no interval"

const minus = "−" // U+2212: a hyphen is too short beside digits

// decimalsFor is how many decimals show one digit of a width, at most six.
func decimalsFor(width float64) int {
	if width <= 0 || math.IsInf(width, 0) || math.IsNaN(width) {
		return 2
	}
	return min(max(0, -int(math.Floor(math.Log10(width)))), 6)
}

// fixed writes x with the decimals and a real minus sign; -0 is 0.
func fixed(x float64, decimals int) string {
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return strings.Replace(s, "-", minus, 1)
}

func signed(x float64, decimals int) string {
	s := fixed(x, decimals)
	if strings.HasPrefix(s, minus) || strings.Trim(s, "0.") == "" {
		return s
	}
	return "+" + s
}

// places is the number of decimals that an estimate of that middle and width
// deserves: two digits of the width, fewer for great numbers.
func places(e stats.Estimate) int {
	width := e.Hi - e.Lo
	if width <= 0 {
		if e.Median == 0 {
			return 0
		}
		width = math.Abs(e.Median) / 10
	}
	return decimalsFor(width / 3)
}

// Number writes an estimate's middle and its interval apart: "12.3", "11.9–12.8".
// A single value has none, and gets none that looks like one.
func Number(e stats.Estimate) (middle, interval string) {
	d := places(e)
	if e.N == 1 {
		return fixed(e.Median, d), noInterval
	}
	return fixed(e.Median, d), rangeOf(e.Lo, e.Hi, func(x float64) string { return fixed(x, d) })
}

// rangeOf joins two ends by a dash, or by "to" where the dash would look like a
// sign.
func rangeOf(lo, hi float64, write func(float64) string) string {
	if lo < 0 || hi < 0 {
		return write(lo) + " to " + write(hi)
	}
	return write(lo) + "–" + write(hi)
}

// ratioDecimals of an interval of ratios: at least two.
func ratioDecimals(e stats.Estimate) int { return min(max(2, decimalsFor(e.Hi-e.Lo)), 4) }

func ratioRange(e stats.Estimate) string {
	d := ratioDecimals(e)
	return rangeOf(e.Lo, e.Hi, func(x float64) string { return fixed(x, d) })
}

// percent writes a ratio as what it is more or less than 1; beyond 10 a factor
// says more. The decimals are those of the ratio's interval.
func percent(ratio float64, decimals int) string {
	if ratio >= 10 {
		return fixed(ratio, 1) + " times"
	}
	return signed(100*(ratio-1), max(0, decimals-2)) + "%"
}

// RatePercent writes a sampling rate: 0.001 is "0.1%".
func RatePercent(rate float64) string {
	return strconv.FormatFloat(math.Round(rate*1e8)/1e6, 'f', -1, 64) + "%"
}

// unitOf is the unit with a space before it; a bare number and a share have none.
func unitOf(m record.Metric) string {
	switch m.Unit {
	case "1", "share", "":
		return ""
	case "1/s":
		return "/s"
	}
	return " " + m.Unit
}

// Change writes the effect's middle and its interval apart: "+12%" and
// "1.10–1.14" for ratios, "+3.1 µs/request" and "2.9–3.3" for differences.
func (e *Effect) Change(m record.Metric) (middle, interval string) {
	if e.Estimate.N == 1 {
		defer func() { interval = noInterval }()
	}
	if e.As == Ratio {
		return percent(e.Estimate.Median, ratioDecimals(e.Estimate)), ratioRange(e.Estimate)
	}
	d := places(e.Estimate)
	middle, interval = signed(e.Estimate.Median, d)+unitOf(m), rangeOf(e.Estimate.Lo, e.Estimate.Hi, func(x float64) string { return fixed(x, d) })
	return middle, interval
}

// FloorText writes a noise floor: "±4%", "±0.3 µs/request".
func FloorText(floor float64, as As, m record.Metric) string {
	if as == Ratio && floor == 0 {
		return "0%"
	}
	if as == Ratio {
		return "±" + fixed(100*floor, decimalsFor(100*floor)) + "%"
	}
	if floor == 0 {
		return "0" + unitOf(m)
	}
	return "±" + fixed(floor, decimalsFor(floor/3)) + unitOf(m)
}

// noise writes the noise floor of the effect, or "up to" one of several.
func (e *Effect) noise(upTo string, m record.Metric) string {
	if e.NoControl {
		return "no control"
	}
	return "noise floor " + upTo + FloorText(e.Verdict.Floor, e.As, m)
}

// sentence says what the effect is, and how sure that is.
func (e *Effect) sentence(m record.Metric, against string) string {
	n := e.Estimate.N
	if n == 0 {
		return "no round in which both count"
	}
	change, interval := e.Change(m)
	v := e.Verdict
	facts := fmt.Sprintf("%s, %s, n=%d", interval, e.noise("", m), n)
	var text string
	switch {
	case v.Distinguishable:
		text = fmt.Sprintf("%s against %s (%s)", change, against, facts)
		if e.Relative != nil {
			text = fmt.Sprintf("%s against %s (%s; %s, %s)", change, against, facts,
				percent(e.Relative.Median, ratioDecimals(*e.Relative)), ratioRange(*e.Relative))
		}
	case n < stats.MinSamples:
		text = fmt.Sprintf("too few rounds to tell: %s against %s (%s, n=%d; at least %d are needed)", change, against, interval, n, stats.MinSamples)
	case e.Estimate.Lo == e.As.neutral() && e.Estimate.Hi == e.As.neutral():
		text = fmt.Sprintf("the same as %s in every round (n=%d)", against, n)
	default:
		text = fmt.Sprintf("not distinguishable from %s (%s%s)", against, facts, moreRounds(v.MoreRounds))
	}
	if v.Warning != "" && e.Against != "" {
		text += "; beware: the baseline’s second run itself differs from the first"
	}
	return text
}

func moreRounds(k int) string {
	switch {
	case k <= 0:
		return ""
	case k >= stats.MaxMoreRounds:
		return fmt.Sprintf("; not even %d more rounds would settle it", stats.MaxMoreRounds)
	}
	return fmt.Sprintf("; about %d more rounds would settle it", roundUp(k))
}

// roundUp keeps two digits: the number of rounds is an order of magnitude.
func roundUp(k int) int {
	unit := 1
	for k/unit >= 100 {
		unit *= 10
	}
	return (k + unit - 1) / unit * unit
}

// variantName writes a variant for people: "head at 10%".
func (a *grid) variantName(b *bunch) string {
	if a.rated(b.tracer) && b.role == Traced {
		return b.tracer + " at " + RatePercent(b.rate)
	}
	return b.name
}

// baselineName is what sentences call the baseline.
func baselineName(e *experiment.Experiment) string {
	if t := e.Tracers[0]; t.Title != "" {
		return t.Title
	}
	return e.Tracers[0].Name
}

// loadName writes a load with its rate where the name does not say it.
func (a *grid) loadName(load string) string {
	for _, l := range a.e.Loads {
		if l.Name != load {
			continue
		}
		switch {
		case l.Rate > 0 && l.OrMost:
			return load + " (or the most that is held)"
		case l.Rate > 0:
			return strconv.FormatFloat(l.Rate, 'f', -1, 64) + " requests/s"
		}
	}
	return load
}
