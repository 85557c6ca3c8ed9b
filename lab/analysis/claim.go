package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// fewFindings are listed rather than summed up.
const fewFindings = 3

// answers makes an answer to each question of the experiment.
func (a *grid) answers(s *Summary) []Answer {
	var out []Answer
	for _, q := range a.e.Questions {
		answer := Answer{ID: q.ID, Ask: q.Ask, Source: q.Source, Claims: []ClaimAnswer{}}
		// The report begins with the claims that have a sentence, else with the first.
		said := slices.ContainsFunc(q.Claims, func(c experiment.Claim) bool { return c.Say != "" })
		for i, c := range q.Claims {
			claim := a.claim(s, c)
			claim.First = c.Say != "" || i == 0 && !said
			answer.Claims = append(answer.Claims, claim)
		}
		out = append(out, answer)
	}
	return out
}

func (a *grid) claim(s *Summary, c experiment.Claim) ClaimAnswer {
	m, known := record.MetricOf(c.Metric)
	out := ClaimAnswer{Metric: c.Metric, Against: c.Against, Source: c.Source, Findings: []Finding{}}
	if out.Against == "" {
		out.Against = a.baseline
	}
	if !known {
		out.Summary = fmt.Sprintf("there is no metric %q", c.Metric)
		out.Missing = []string{out.Summary}
		out.Short = short(s, c, m, &out)
		return out
	}
	for _, name := range a.cellNames {
		p := a.places[name]
		for _, variant := range p.order {
			b := p.variants[variant]
			// No tracer is compared with itself. The baseline is compared with another tracer
			// where the claim names both, and the cell has that.
			compared := b.role == Traced || b.role == Baseline && slices.Contains(c.Where.Tracers, b.tracer) && p.peer(a, b, c.Against) != nil
			if !compared || b.tracer == c.Against || !a.picks(c.Where, p, b) {
				continue
			}
			f, missing := a.finding(s, p, name, b, m, c)
			if missing != "" {
				out.Missing = append(out.Missing, fmt.Sprintf("%s, %s: %s", name, a.variantName(b), missing))
				continue
			}
			out.Findings = append(out.Findings, f)
		}
	}
	if c.OfWorkloads {
		out.Findings = a.ofWorkloads(out.Findings, m, c)
	}
	a.sumUp(&out, m, c.ShareOfAdded || c.AtMost > 0 || c.AtLeast > 0)
	out.Short = short(s, c, m, &out)
	return out
}

// finding is one comparison of a claim, or why there is none.
func (a *grid) finding(s *Summary, p *place, cell string, b *bunch, m record.Metric, c experiment.Claim) (Finding, string) {
	against := c.Against
	f := Finding{Cell: cell, Workload: p.workload, Load: p.load, Variant: b.name, Tracer: b.tracer, Rate: b.rate}
	said := other{a.baseline, baselineName(a.e)}
	var y byRound
	if against == "" {
		y = p.untraced(m)
	} else {
		o := p.peer(a, b, against)
		if o == nil {
			return f, fmt.Sprintf("%s was not run at the same rate", against)
		}
		said = other{o.name, a.variantName(o)}
		y = o.values(m)
	}
	x := b.values(m)
	if b.role == Baseline {
		x = p.untraced(m)
	}
	if c.ShareOfAdded {
		return f, share(&f, x, y, p.untraced(m), said.said, c.AtMost)
	}
	if len(both(x, y)) > 0 {
		as := p.comparedAs(m)
		if c.As == "added" {
			as = Difference
		}
		f.Effect = a.effect(p, m, as, x, y, said)
		f.Text = f.Effect.Text
		f.aims(targetOf(f.Effect, m, c))
		if against == "" {
			f.Effect.Rounds = nil // they are in the cell's table
		}
		return f, ""
	}
	if against == "" || len(x) == 0 {
		if a.alone(s, &f, b, m, x, c) {
			return f, ""
		}
	}
	switch {
	case len(x) == 0:
		return f, fmt.Sprintf("no run that counts has the %s", m.Name)
	case len(y) == 0:
		return f, fmt.Sprintf("no run of %s that counts has the %s", said.said, m.Name)
	}
	return f, fmt.Sprintf("there is no round in which both it and %s count", said.said)
}

// ofWorkloads sums up findings of one variant at one load: of how many workloads is the
// value 1, which is 0 or 1 in each run?
func (a *grid) ofWorkloads(findings []Finding, m record.Metric, c experiment.Claim) []Finding {
	order, groups := groupBy(findings, func(f Finding) string { return f.Variant + "\x00" + f.Load })
	var out []Finding
	for _, key := range order {
		f, right, n := groups[key][0], 0, 0
		for _, of := range groups[key] {
			b := a.places[of.Cell].variants[of.Variant]
			xs := b.values(m).list()
			if len(xs) == 0 {
				xs, _ = b.apart(m)
			}
			for _, x := range xs {
				n++
				if x == 1 {
					right++
				}
			}
		}
		p := proportion(right, n)
		f.Cell, f.Workload = plural(len(groups[key]), "workload"), ""
		f.Effect, f.Value, f.Proportion = nil, nil, &p
		f.Text = p.String() + " of the runs"
		f.aims(targetShare(p, c))
		out = append(out, f)
	}
	return out
}

// aims puts before a finding whether it is as the claim wants it; verdict "": it wants nothing.
func (f *Finding) aims(bound, verdict string) {
	f.Target = verdict
	if verdict != "" {
		f.Text = fmt.Sprintf("target (%s): %s; %s", bound, verdict, f.Text)
	}
}

// targetOf says whether a ratio, or a difference in the metric's own unit, is as the claim wants it.
// A metric that is only compared by difference because the baseline is 0 somewhere has a target for the
// ratio, which then says nothing.
func targetOf(e *Effect, m record.Metric, c experiment.Claim) (bound, verdict string) {
	unit := " times"
	if e.As == Difference {
		if !inItsUnit(m, c) {
			return "", ""
		}
		unit = unitOf(m)
	}
	switch {
	case c.AtMost > 0:
		return fmt.Sprintf("at most %g%s", c.AtMost, unit), stats.AtMost(e.Estimate, c.AtMost)
	case c.AtLeast > 0:
		return fmt.Sprintf("at least %g%s", c.AtLeast, unit), stats.AtLeast(e.Estimate, c.AtLeast)
	}
	return "", ""
}

// inItsUnit reports whether the target of a claim that compares is in the metric's own unit.
func inItsUnit(m record.Metric, c experiment.Claim) bool { return m.Additive || c.As == "added" }

// targetValue says whether a value that is compared with nothing is as the claim wants it.
func targetValue(v stats.Estimate, m record.Metric, c experiment.Claim) (bound, verdict string) {
	write := func(x float64) string { return fmt.Sprintf("%g%s", x, unitOf(m)) }
	if m.Unit == "share" {
		write = RatePercent
	}
	switch {
	case c.AtMost > 0:
		return "at most " + write(c.AtMost), stats.AtMost(v, c.AtMost)
	case c.AtLeast > 0:
		return "at least " + write(c.AtLeast), stats.AtLeast(v, c.AtLeast)
	}
	return "", ""
}

// targetShare says whether a share of the traces is as the claim wants it, by its
// interval.
func targetShare(p Proportion, c experiment.Claim) (bound, verdict string) {
	judged := func(met, missed, leans bool) string {
		switch {
		case met:
			return "met"
		case missed:
			return "missed"
		case leans:
			return "met, but for the interval"
		}
		return "missed, but for the interval"
	}
	switch {
	case c.AtMost > 0:
		return fmt.Sprintf("at most %g%%", 100*c.AtMost), judged(p.Hi <= c.AtMost, p.Lo > c.AtMost, p.Share <= c.AtMost)
	case c.AtLeast > 0:
		return fmt.Sprintf("at least %g%%", 100*c.AtLeast), judged(p.Lo >= c.AtLeast, p.Hi < c.AtLeast, p.Share >= c.AtLeast)
	}
	return "", ""
}

// peer is another tracer at the same rate in the same cell; one without rates is
// the peer at any.
func (p *place) peer(a *grid, b *bunch, tracer string) *bunch {
	for _, name := range p.order {
		o := p.variants[name]
		if o.tracer == tracer && o.role != Again && (o.rate == b.rate || !a.rated(tracer) || !a.rated(b.tracer)) {
			return o
		}
	}
	return nil
}

// alone fills in a value that has nothing to be compared with.
func (a *grid) alone(s *Summary, f *Finding, b *bunch, m record.Metric, x byRound, c experiment.Claim) bool {
	for i := range s.Fidelity {
		fid := &s.Fidelity[i]
		if fid.Cell != f.Cell || fid.Variant != f.Variant || fid.Traces == 0 {
			continue
		}
		if part, of, ok := fid.part(m.Key); ok {
			f.Proportion = &part
			f.Text = part.String() + " of the " + of
			f.aims(targetShare(part, c))
			return true
		}
	}
	xs := x.list()
	if len(xs) == 0 {
		xs, _ = b.apart(m)
	}
	if len(xs) == 0 {
		return false
	}
	v := stats.Interval(xs)
	f.Value = &v
	middle, interval := Number(v)
	f.Text = fmt.Sprintf("%s%s (%s, n=%d)", middle, unitOf(m), interval, v.N)
	f.aims(targetValue(v, m, c))
	return true
}

// sumUp makes the sentences about all findings together.
func (a *grid) sumUp(c *ClaimAnswer, m record.Metric, each bool) {
	said := baselineName(a.e)
	switch {
	case c.Against == a.baseline:
	case a.rated(c.Against):
		said = c.Against + " at the same rate"
	default:
		said = c.Against
	}
	all := a.tallyOf(c.Findings)
	c.Comparisons, c.Distinguishable = all.comparisons, all.distinguishable
	c.Summary = all.sentence(m, said)
	if n := len(c.Findings); n > 1 && (each || n <= fewFindings && !all.equal) {
		var texts []string
		for i := range c.Findings {
			f := &c.Findings[i]
			texts = append(texts, all.name(f)+": "+f.Text)
		}
		c.Summary = strings.Join(texts, "; ")
		return
	}
	for _, by := range []struct {
		name string
		key  func(Finding) string
	}{
		{"workload", func(f Finding) string { return f.Workload }},
		{"load", func(f Finding) string { return a.loadName(f.Load) }},
		{"tracer", func(f Finding) string { return f.Tracer }},
		{"rate", func(f Finding) string {
			if !a.rated(f.Tracer) {
				return ""
			}
			return RatePercent(f.Rate)
		}},
	} {
		c.Ranges = append(c.Ranges, a.ranges(by.name, by.key, c.Findings, m, said)...)
	}
}

// ranges sums up by a dimension, if it has more than one value.
func (a *grid) ranges(by string, key func(Finding) string, findings []Finding, m record.Metric, said string) []Range {
	var order []string
	groups := map[string][]Finding{}
	for _, f := range findings {
		k := key(f)
		if k == "" {
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], f)
	}
	if len(order) < 2 || len(order) == len(findings) {
		return nil // one value, or each finding for itself: nothing to sum up
	}
	if by == "rate" {
		slices.SortStableFunc(order, func(x, y string) int {
			return cmp.Compare(groups[x][0].Rate, groups[y][0].Rate)
		})
	}
	preposition := map[string]string{"workload": "on ", "load": "at ", "tracer": "with ", "rate": "at a rate of "}[by]
	var out []Range
	for _, k := range order {
		t := a.tallyOf(groups[k])
		out = append(out, Range{
			By: by, Key: k, Comparisons: t.comparisons, Distinguishable: t.distinguishable,
			Text: preposition + k + ": " + t.sentence(m, said),
		})
	}
	return out
}
