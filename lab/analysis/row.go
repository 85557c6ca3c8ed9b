package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// Row is a finding as a line of a table.
type Row struct {
	Cell, Metric, Base, Variant string
	// Effect against the base and its 95% interval: "+12%" and "1.10–1.14" for a ratio; the value
	// itself where there is no base.
	Effect, Interval string
	N                int
	// Verdict has the target, if there is one: "met (≤ 1.02)".
	Verdict string
}

// Head names the columns of rows.
var Head = []string{"cell", "metric", "base", "variant", "effect", "95% interval", "n", "verdict"}

// Texts are the cells of a row, in the order of Head.
func (r Row) Texts() []string {
	return []string{r.Cell, r.Metric, r.Base, r.Variant, r.Effect, r.Interval, fmt.Sprint(r.N), r.Verdict}
}

// String writes a row for a cell of another table: "+12% (1.10–1.14, n=20): more".
func (r Row) String() string {
	text := measured(r.Effect, r.Interval, r.N)
	if r.Verdict == none {
		return text
	}
	return text + ": " + r.Verdict
}

// measured writes a middle with its interval and n.
func measured(middle, interval string, n int) string {
	return fmt.Sprintf("%s (%s, n=%d)", middle, interval, n)
}

// none stands in a row for what there is not.
const none = "–"

// Marks of verdicts.
const (
	markNoControl = "†"
	markWarning   = "‡"
)

// Footnotes explain the words and marks of the verdicts of rows.
var Footnotes = []string{
	fmt.Sprintf("*more*, *less*: the 95%% interval excludes no effect, which is also greater than the noise floor, and at least %d rounds count. *not resolved*: there may be an effect, but as many rounds do not show it.", stats.MinSamples),
	"*met*, *missed*: the whole interval is on one side of the target.",
	markNoControl + " Runs of the baseline have none of it: the interval alone decides.",
	markWarning + " The baseline's second run differs from its first.",
}

// Rows are the findings of a claim.
func (c *ClaimAnswer) Rows() []Row {
	rows := make([]Row, len(c.Findings))
	for i := range rows {
		rows[i] = c.row(i)
	}
	return rows
}

func (c *ClaimAnswer) row(i int) Row {
	f := &c.Findings[i]
	m, _ := record.MetricOf(c.Metric)
	r := Row{Cell: f.Cell, Metric: m.Name, Base: none, Variant: Label(f.Variant), Verdict: f.verdict()}
	if c.ShareOfAdded {
		r.Metric += ", share of what the base adds"
	}
	r.Effect, r.Interval, r.N = f.text(m)
	if against := f.base(); against != "" {
		r.Base = Label(against)
	}
	return r
}

func (f *Finding) base() string {
	if f.Effect != nil {
		return f.Effect.Against
	}
	return f.Against
}

// text writes the middle of a finding, its interval and n.
func (f *Finding) text(m record.Metric) (middle, interval string, n int) {
	switch {
	case f.Effect != nil:
		middle, interval = f.Effect.Change(m)
		return middle, interval, f.Effect.Estimate.N
	case f.Proportion != nil:
		middle, interval = f.Proportion.text()
		return middle, interval, f.Proportion.N
	case f.Against != "": // a share of what another adds
		middle, interval = fixed(f.Value.Median, 2), fixed(f.Value.Lo, 2)+" to unbounded"
		if f.Value.Hi < unbounded {
			interval = rangeOf(f.Value.Lo, f.Value.Hi, func(x float64) string { return fixed(x, 2) })
		}
		return middle, interval, f.Value.N
	}
	middle, interval = Number(*f.Value)
	return middle + unitOf(m), interval, f.Value.N
}

// outcome is what became of the target or, without one, whether there is an effect; "": it is a
// value that is compared with nothing.
func (f *Finding) outcome() string {
	e := f.Effect
	switch {
	case f.Target != "":
		return f.Target
	case e == nil:
		return ""
	case e.Verdict.Distinguishable && e.Estimate.Median > e.As.neutral():
		return "more"
	case e.Verdict.Distinguishable:
		return "less"
	case e.Estimate.N >= stats.MinSamples && e.same():
		return "same"
	}
	return stats.NotResolved
}

// same reports whether both sides are equal in every round.
func (e *Effect) same() bool {
	return e.Estimate.Lo == e.As.neutral() && e.Estimate.Hi == e.As.neutral()
}

func (f *Finding) verdict() string {
	text := f.outcome()
	if f.Target != "" {
		text += " (" + f.Bound + ")"
	}
	if e := f.Effect; e != nil && e.NoControl {
		text += " " + markNoControl
	} else if e != nil && e.Verdict.Warning != "" {
		text += " " + markWarning
	}
	return cmp.Or(text, none)
}

// middle orders the findings of a claim.
func (f *Finding) middle() float64 {
	switch {
	case f.Effect != nil:
		return f.Effect.Estimate.Median - f.Effect.As.neutral()
	case f.Proportion != nil:
		return f.Proportion.Share
	}
	return f.Value.Median
}

// Extremes are the places of the least and of the greatest finding.
func (c *ClaimAnswer) Extremes() (least, greatest int) {
	for i := range c.Findings {
		x := c.Findings[i].middle()
		if x < c.Findings[least].middle() {
			least = i
		}
		if x > c.Findings[greatest].middle() {
			greatest = i
		}
	}
	return least, greatest
}

// Sentence is the answer in short: the least and the greatest effect of the question's first claim, how many
// rounds resolve, and what became of the targets of all claims that the report begins with.
func (a *Answer) Sentence() string {
	i := slices.IndexFunc(a.Claims, func(c ClaimAnswer) bool { return c.First })
	if i < 0 {
		return "Not measured."
	}
	c := &a.Claims[i]
	switch n := len(c.Findings); {
	case n == 0 && len(c.Missing) > 0:
		return "Not measured: " + c.Missing[0] + "."
	case n == 0:
		return "This profile does not measure it."
	}
	least, greatest := c.Extremes()
	lo, hi := c.row(least), c.row(greatest)
	of, effect := fmt.Sprintf("%d comparisons", len(c.Findings)), lo.Effect
	switch {
	case len(c.Findings) == 1:
		of, effect = lo.Variant, measured(lo.Effect, lo.Interval, lo.N)
	case lo.Effect != hi.Effect:
		effect += " to " + hi.Effect
	}
	metric := strings.ToUpper(lo.Metric[:1]) + lo.Metric[1:]
	return fmt.Sprintf("%s, %s: %s", metric, of, effect) + outcomes(c.Findings) + a.targets(i)
}

// outcomes counts what became of findings: "; 2 met, 1 not resolved by 20 rounds."
func outcomes(findings []Finding) string {
	counts, least, most := map[string]int{}, math.MaxInt, 0
	for i := range findings {
		f := &findings[i]
		word := f.outcome()
		counts[word]++
		if word == stats.NotResolved {
			_, _, n := f.text(record.Metric{})
			least, most = min(least, n), max(most, n)
		}
	}
	var parts []string
	for _, word := range []string{stats.Met, stats.Missed, "more", "less", "same", stats.NotResolved} {
		if counts[word] == 0 {
			continue
		}
		part := word
		switch word {
		case stats.Met, stats.Missed:
			part = "target " + word
		case stats.NotResolved:
			part = fmt.Sprintf("%s by %d rounds", word, most)
			if least != most {
				part = fmt.Sprintf("%s by %d to %d rounds", word, least, most)
			}
		}
		if len(findings) > 1 {
			part += fmt.Sprintf(" in %d", counts[word])
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "."
	}
	return "; " + strings.Join(parts, ", ") + "."
}

// targets counts those of the other claims that the report begins with.
func (a *Answer) targets(but int) string {
	var findings []Finding
	for i, c := range a.Claims {
		for _, f := range c.Findings {
			if i != but && c.First && f.Target != "" {
				findings = append(findings, f)
			}
		}
	}
	if len(findings) == 0 {
		return ""
	}
	return " Other targets: " + strings.TrimPrefix(strings.ReplaceAll(outcomes(findings), "target ", ""), "; ")
}
