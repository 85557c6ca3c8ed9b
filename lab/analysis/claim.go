package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// answers are the findings of each question of the experiment. One that asks nothing is asked for the
// effect of each tracer on its first metric.
func (a *grid) answers(s *Summary) []Answer {
	questions := a.e.Questions
	if len(questions) == 0 && len(a.e.Metrics) > 0 {
		questions = []experiment.Question{{ID: "effects", Ask: "What does each tracer change?", Claims: []experiment.Claim{{Metric: a.e.Metrics[0]}}}}
	}
	var out []Answer
	for _, q := range questions {
		answer := Answer{ID: q.ID, Ask: q.Ask, Source: q.Source, Claims: []ClaimAnswer{}}
		// The report begins with the claims that the experiment describes, else with the first.
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
	out := ClaimAnswer{
		Metric: c.Metric, Subject: subject(c, m, s.NotOffered), Against: c.Against, ShareOfAdded: c.ShareOfAdded,
		Source: c.Source, Findings: []Finding{},
	}
	if out.Against == "" {
		out.Against = a.baseline
	}
	if !known {
		out.Missing = []string{fmt.Sprintf("there is no metric %q", c.Metric)}
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
				out.Missing = append(out.Missing, fmt.Sprintf("%s, %s: %s", name, Label(b.name), missing))
				continue
			}
			out.Findings = append(out.Findings, f)
		}
	}
	if c.OfWorkloads {
		out.Findings = a.ofWorkloads(out.Findings, m, c)
	}
	for i := range out.Findings {
		if e := out.Findings[i].Effect; e != nil {
			out.Comparisons++
			if e.Verdict.Distinguishable {
				out.Distinguishable++
			}
		}
	}
	return out
}

// subject names what a claim is about, as the experiment describes it or by its metric and variants,
// without the tracers that need another kernel.
func subject(c experiment.Claim, m record.Metric, notOffered map[string]string) string {
	if c.Say != "" {
		return strings.Replace(c.Say, "{}", "…", 1)
	}
	text := m.Name
	add := func(preposition string, names []string) {
		if len(names) > 0 {
			text += preposition + strings.Join(names, ", ")
		}
	}
	add(" with ", slices.DeleteFunc(slices.Clone(c.Where.Tracers), func(tracer string) bool {
		_, elsewhere := notOffered[tracer]
		return elsewhere
	}))
	add(" on ", c.Where.Workloads)
	add(" at ", c.Where.Loads)
	if c.Against != "" {
		text += ", against " + c.Against
	}
	return text
}

// finding is one comparison of a claim, or why there is none.
func (a *grid) finding(s *Summary, p *place, cell string, b *bunch, m record.Metric, c experiment.Claim) (Finding, string) {
	against := c.Against
	f := Finding{Cell: cell, Workload: p.workload, Load: p.load, Variant: b.name, Tracer: b.tracer, Rate: b.rate}
	other := a.baseline
	var y byRound
	if against == "" {
		y = p.untraced(m)
	} else {
		o := p.peer(a, b, against)
		if o == nil {
			return f, fmt.Sprintf("%s was not run at the same rate", against)
		}
		other, y = o.name, o.values(m)
	}
	x := b.values(m)
	if b.role == Baseline {
		x = p.untraced(m)
	}
	if c.ShareOfAdded {
		return f, share(&f, x, y, p.untraced(m), other, c.AtMost)
	}
	if len(both(x, y)) > 0 {
		as := p.comparedAs(m)
		if c.As == "added" {
			as = Difference
		}
		f.Effect = a.effect(p, m, as, x, y, other)
		f.Bound, f.Target = targetOf(f.Effect, m, c)
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
		return f, fmt.Sprintf("no run of %s that counts has the %s", Label(other), m.Name)
	}
	return f, fmt.Sprintf("there is no round in which both it and %s count", Label(other))
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
		f.Cell, f.Workload = fmt.Sprintf("%d workloads", len(groups[key])), ""
		f.Effect, f.Value, f.Proportion = nil, nil, &p
		f.Bound, f.Target = targetShare(p, c)
		out = append(out, f)
	}
	return out
}

// targetOf says whether a ratio, or a difference in the metric's own unit, is as the claim wants it;
// verdict "": it wants nothing. A metric that is only compared by difference because the baseline is 0
// somewhere has a target for the ratio, which then says nothing.
func targetOf(e *Effect, m record.Metric, c experiment.Claim) (bound, verdict string) {
	if e.As == Ratio {
		return target(e.Estimate, c, func(x float64) string { return fmt.Sprintf("%g", x) })
	}
	if !m.Additive && c.As != "added" {
		return "", ""
	}
	return target(e.Estimate, c, inUnit(m))
}

func inUnit(m record.Metric) func(float64) string {
	return func(x float64) string { return fmt.Sprintf("%g%s", x, unitOf(m)) }
}

// targetValue says whether a value that is compared with nothing is as the claim wants it.
func targetValue(v stats.Estimate, m record.Metric, c experiment.Claim) (bound, verdict string) {
	if m.Unit == "share" {
		return target(v, c, RatePercent)
	}
	return target(v, c, inUnit(m))
}

func target(e stats.Estimate, c experiment.Claim, write func(float64) string) (bound, verdict string) {
	switch {
	case c.AtMost > 0:
		return "≤ " + write(c.AtMost), stats.AtMost(e, c.AtMost)
	case c.AtLeast > 0:
		return "≥ " + write(c.AtLeast), stats.AtLeast(e, c.AtLeast)
	}
	return "", ""
}

// targetShare says whether a share of the traces is as the claim wants it, by its
// interval, which holds for any number of traces.
func targetShare(p Proportion, c experiment.Claim) (bound, verdict string) {
	e := stats.Estimate{Median: p.Share, Lo: p.Lo, Hi: p.Hi, N: max(p.N, stats.MinSamples)}
	return target(e, c, RatePercent)
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
		if part, ok := fid.part(m.Key); ok {
			f.Proportion = &part
			f.Bound, f.Target = targetShare(part, c)
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
	f.Bound, f.Target = targetValue(v, m, c)
	return true
}

// smoke says what is not measured where no effect rests on enough rounds; "": at least one
// does. Traces, calls and runs that are counted need no rounds.
func smoke(s *Summary) string {
	told, few, effects, rounds := 0, 0, 0, 0 // rounds: the most that an effect of too few rests on
	for _, q := range s.Answers {
		for _, c := range q.Claims {
			n, counted := restsOn(c.Findings)
			switch {
			case len(c.Findings) == 0:
			case n < stats.MinSamples:
				few, rounds = few+1, max(rounds, n)
			default:
				told++
				if !counted {
					effects++
				}
			}
		}
	}
	if few == 0 && (told > 0 || s.Runs.Measured == 0) || effects > 0 { // else the rules may have excluded all
		return ""
	}
	shows := "smoke: shows that it runs."
	if told > 0 {
		shows = "Counts alone: what it costs is not measured here."
	}
	return fmt.Sprintf("%s An effect needs at least %d rounds to be told from noise, and at most %d count here.", shows, stats.MinSamples, rounds)
}

// restsOn is the number of values that the best of the findings rests on, and whether these
// are traces or calls, of which a single round has many.
func restsOn(findings []Finding) (n int, counted bool) {
	for _, f := range findings {
		switch {
		case f.Proportion != nil:
			return max(f.Proportion.N, stats.MinSamples), true
		case f.Effect != nil:
			n = max(n, f.Effect.Estimate.N)
		case f.Value != nil:
			n = max(n, f.Value.N)
		}
	}
	return n, false
}
