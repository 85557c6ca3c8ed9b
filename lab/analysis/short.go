package analysis

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// short writes the answer of a claim for readers who do not read intervals: one plain sentence,
// its number first if the experiment says nothing else, and whether it can be told at all. The
// numbers are the outer ends of the 95% intervals: of the effects that can be told from noise, the
// others' apart, or of all findings.
func short(s *Summary, c experiment.Claim, m record.Metric, found *ClaimAnswer) string {
	outcome, doubt := "", ""
	var effects, values, counted []*Finding
	for i := range found.Findings {
		f := &found.Findings[i]
		switch {
		case f.Effect != nil:
			effects = append(effects, f)
		case f.Value != nil:
			values = append(values, f)
		case f.Proportion != nil:
			counted = append(counted, f)
		}
	}
	switch {
	case len(effects) > 0:
		outcome, doubt = told(effects, m)
	case len(counted) > 0:
		outcome = countedOf(counted)
	case len(values) > 0:
		outcome, doubt = valued(values, m, c.ShareOfAdded)
	case len(found.Missing) > 0:
		return "We cannot tell: " + found.Missing[0] + "."
	default:
		return "This profile does not measure it."
	}
	sentence := c.Say
	if sentence == "" {
		sentence = m.Name + Subject(c.Where, s.NotOffered)
		switch {
		case c.ShareOfAdded:
			sentence += ": {} of what " + c.Against + " adds"
		case c.Against != "":
			sentence += ", against " + c.Against + ": {}"
		default:
			sentence += ": {}"
		}
	}
	sentence = strings.TrimSuffix(strings.Replace(sentence, "{}", outcome, 1), ".") + doubt + "."
	return capital(sentence) + targets(found.Findings, m, c)
}

func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// changed writes what effects span: "44% to 72% more", "between 1% less and 3% more".
func changed(effects []*Finding, m record.Metric) string {
	as := effects[0].Effect.As
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, f := range effects {
		e := f.Effect
		if e.As != as {
			return mixed(effects)
		}
		lo, hi = min(lo, e.Estimate.Lo), max(hi, e.Estimate.Hi)
	}
	least, most := lo-as.neutral(), hi-as.neutral()
	write := func(x float64) string { return plain(math.Abs(x), most-least, unitOf(m)) }
	if as == Ratio {
		write = func(x float64) string { return plain(100*math.Abs(x), 100*(most-least), "%") }
	}
	switch {
	case write(least) == write(0) && write(most) == write(0):
		return "no more and no less"
	case least >= 0:
		return span(write(least), write(most)) + " more"
	case most <= 0:
		return span(write(most), write(least)) + " less"
	}
	return "between " + write(least) + " less and " + write(most) + " more"
}

// mixed effects, some by ratio and some by difference, have no common number.
func mixed(effects []*Finding) string {
	more, less := 0, 0
	for _, f := range effects {
		switch e := f.Effect; {
		case e.Estimate.Median > e.As.neutral():
			more++
		case e.Estimate.Median < e.As.neutral():
			less++
		}
	}
	return fmt.Sprintf("more in %d and less in %d of %d comparisons", more, less, len(effects))
}

// told writes what effects span, and whether they can be told from noise, or "" where all can. Where
// some can, and are more than chance makes, the span is theirs: that of all says how noisy the
// noisiest is.
func told(effects []*Finding, m record.Metric) (outcome, doubt string) {
	var sure, rest []*Finding
	few, noise := 0, 0
	for _, f := range effects {
		e := f.Effect
		same := e.Estimate.Lo == e.As.neutral() && e.Estimate.Hi == e.As.neutral()
		if e.Verdict.Distinguishable {
			sure = append(sure, f)
			continue
		}
		rest = append(rest, f)
		switch {
		case e.Estimate.N < stats.MinSamples:
			few++
		case !same:
			noise++
		}
	}
	n, unsure := len(effects), few+noise
	if unsure == 0 {
		return changed(effects, m), ""
	}
	if len(sure) > 0 && !chance(len(sure), n) {
		others := fmt.Sprintf("the other %d are", len(rest))
		if len(rest) == 1 {
			others = "the other one is"
		}
		return changed(sure, m), fmt.Sprintf(": we can tell it from noise in %d of %d comparisons; %s %s%s", len(sure), n, others, changed(rest, m), ofFew(few, len(rest)))
	}
	where := fmt.Sprintf(" in %d of %d comparisons", unsure, n)
	switch {
	case n == 1:
		where = ""
	case unsure == n:
		where = fmt.Sprintf(" in any of %d comparisons", n)
	}
	if few == unsure {
		return changed(effects, m), ": too few rounds to tell" + where
	}
	return changed(effects, m), ": we cannot tell it from noise" + where + ofFew(few, unsure)
}

// ofFew says how many of n comparisons rest on too few rounds.
func ofFew(few, n int) string {
	switch few {
	case 0:
		return ""
	case n:
		return ", of too few rounds to tell"
	}
	return fmt.Sprintf(", %d of them of too few rounds to tell", few)
}

// chance reports whether as many of n comparisons could be told from noise if there were no effect
// at all: an interval of 95% misses one time in twenty; the noise floor makes it fewer.
func chance(told, n int) bool { return n >= 5 && 7*told < n }

// valued writes what values without comparison span, and what they lack; shares are in percent.
// Shares without an upper limit are counted, if others have one.
func valued(values []*Finding, m record.Metric, added bool) (outcome, doubt string) {
	doubt = fewRounds(values)
	limited := slices.DeleteFunc(slices.Clone(values), func(f *Finding) bool { return f.Value.Hi >= unbounded })
	if n := len(values) - len(limited); n > 0 && n < len(values) {
		doubt += fmt.Sprintf(": in %d of %d comparisons there is no upper limit", n, len(values))
		values = limited
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, f := range values {
		lo, hi = min(lo, f.Value.Lo), max(hi, f.Value.Hi)
	}
	scale, unit := 1.0, unitOf(m)
	if added || m.Unit == "share" {
		scale, unit = 100, "%"
	}
	width := scale * (hi - lo)
	if hi >= unbounded {
		width = scale * math.Abs(lo)
	}
	write := func(x float64) string {
		text := plain(math.Abs(scale*x), width, unit)
		if x < 0 && text != plain(0, width, unit) {
			return minus + text
		}
		return text
	}
	if hi >= unbounded {
		return write(lo) + " or more", doubt
	}
	return span(write(lo), write(hi)), doubt
}

// fewRounds says where values rest on too few rounds to have an interval.
func fewRounds(values []*Finding) string {
	for _, f := range values {
		if f.Value.N < stats.MinSamples {
			return fmt.Sprintf(" (of %s)", plural(f.Value.N, "run"))
		}
	}
	return ""
}

// countedOf adds up what was counted: "all of 20,000", "none of 20,000", "99.2% of 20,000".
func countedOf(findings []*Finding) string {
	with, n := 0, 0
	for _, f := range findings {
		with += int(math.Round(f.Proportion.Share * float64(f.Proportion.N)))
		n += f.Proportion.N
	}
	switch with {
	case n:
		return "all of " + thousands(n)
	case 0:
		return "none of " + thousands(n)
	}
	share := 100 * float64(with) / float64(n)
	return plain(share, min(share, 100-share), "%") + " of " + thousands(n)
}

// plain writes a number with as many digits as its range makes worth reading.
func plain(x, width float64, unit string) string {
	if width == 0 {
		width = math.Abs(x) / 10
	}
	return fixed(x, min(decimalsFor(width/2), 3)) + unit
}

// span joins two ends; the unit of the first one says nothing.
func span(lo, hi string) string {
	if lo == hi {
		return lo
	}
	if number, unit, ok := strings.Cut(hi, " "); ok {
		return strings.TrimSuffix(lo, " "+unit) + " to " + number + " " + unit
	}
	return lo + " to " + hi
}

// thousands writes a count with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// targets says in how many findings the target of a claim is met, or "" if it has none.
func targets(findings []Finding, m record.Metric, c experiment.Claim) string {
	order, groups := groupBy(findings, func(f Finding) string { return f.Target })
	var parts []string
	for _, verdict := range order {
		if verdict == "" {
			continue
		}
		if n := len(groups[verdict]); n < len(findings) {
			verdict = fmt.Sprintf("%s in %d of %d", verdict, n, len(findings))
		}
		parts = append(parts, verdict)
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf(" Target (%s): %s.", aim(findings[0], m, c), strings.Join(parts, "; "))
}

// aim writes the target of a claim in plain words.
func aim(of Finding, m record.Metric, c experiment.Claim) string {
	bound, word := c.AtMost, "at most "
	if bound == 0 {
		bound, word = c.AtLeast, "at least "
	}
	inUnit := of.Effect != nil && inItsUnit(m, c) || of.Value != nil && !c.ShareOfAdded && m.Unit != "share"
	switch {
	case inUnit:
		return fmt.Sprintf("%s%g%s", word, bound, unitOf(m))
	case of.Effect == nil:
		return word + RatePercent(bound)
	case bound == 1 && c.AtMost > 0:
		return "no more"
	case bound == 1:
		return "no less"
	case bound < 1: // at least 0.98 times is at most 2% less
		word = map[string]string{"at most ": "at least ", "at least ": "at most "}[word]
		return word + RatePercent(1-bound) + " less"
	}
	return word + RatePercent(bound-1) + " more"
}
