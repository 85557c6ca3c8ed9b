package analysis

import (
	"math"
	"strconv"
	"strings"

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
	return fixed(e.Median, places(e)), intervalOf(e, places(e))
}

func intervalOf(e stats.Estimate, decimals int) string {
	if e.N == 1 {
		return noInterval
	}
	return rangeOf(e.Lo, e.Hi, func(x float64) string { return fixed(x, decimals) })
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

// Label writes a variant for people: "head@0.1" is "head at 10%".
func Label(variant string) string {
	tracer, text, _ := strings.Cut(variant, "@")
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return variant
	}
	return tracer + " at " + RatePercent(rate)
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
	if e.As == Ratio {
		d := ratioDecimals(e.Estimate)
		return percent(e.Estimate.Median, d), intervalOf(e.Estimate, d)
	}
	d := places(e.Estimate)
	return signed(e.Estimate.Median, d) + unitOf(m), intervalOf(e.Estimate, d)
}

// FloorText writes a noise floor: "±4%", "±0.3 µs/request".
func FloorText(floor float64, as As, m record.Metric) string {
	switch {
	case as == Ratio && floor == 0:
		return "0%"
	case as == Ratio:
		return "±" + fixed(100*floor, decimalsFor(100*floor)) + "%"
	case floor == 0:
		return "0" + unitOf(m)
	}
	return "±" + fixed(floor, decimalsFor(floor/3)) + unitOf(m)
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

// String writes the share in percent with its interval and n.
func (p Proportion) String() string {
	share, interval := p.text()
	return measured(share, interval, p.N)
}

func (p Proportion) text() (share, interval string) {
	d := min(max(1, decimalsFor(100*(p.Hi-p.Lo)/3)), 4)
	write := func(x float64) string { return fixed(100*x, d) }
	return write(p.Share) + "%", write(p.Lo) + "–" + write(p.Hi) + "%"
}
