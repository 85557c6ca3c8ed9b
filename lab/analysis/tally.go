package analysis

import (
	"fmt"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// tally counts findings and keeps their extremes.
type tally struct {
	comparisons, distinguishable int
	first                        *Finding // that compares
	least, most                  *Finding // by median, of the distinguishable
	lo, hi                       float64  // ends of the others' intervals
	as                           As
	mixed                        bool // some by ratio, some by difference
	floor                        float64
	n                            [2]int
	few                          int
	alone                        []*Finding // values without comparison
	equal                        bool       // all of them, in every round
	noControl                    bool       // of none of them
	name                         func(*Finding) string
}

func (a *grid) tallyOf(findings []Finding) tally {
	t := tally{name: a.namer(findings)}
	others := 0
	for i := range findings {
		f := &findings[i]
		if f.Effect == nil {
			t.alone = append(t.alone, f)
			continue
		}
		e := f.Effect.Estimate
		if t.comparisons == 0 {
			t.first = f
			t.as, t.n, t.equal, t.noControl = f.Effect.As, [2]int{e.N, e.N}, true, true
		}
		neutral := f.Effect.As.neutral()
		t.equal = t.equal && e.Lo == neutral && e.Hi == neutral
		t.noControl = t.noControl && f.Effect.NoControl
		t.mixed = t.mixed || t.as != f.Effect.As
		t.comparisons++
		t.n = [2]int{min(t.n[0], e.N), max(t.n[1], e.N)}
		t.floor = max(t.floor, f.Effect.Verdict.Floor)
		if e.N < stats.MinSamples {
			t.few++
		}
		if !f.Effect.Verdict.Distinguishable {
			if others == 0 {
				t.lo, t.hi = e.Lo, e.Hi
			}
			t.lo, t.hi = min(t.lo, e.Lo), max(t.hi, e.Hi)
			others++
			continue
		}
		t.distinguishable++
		if t.least == nil || e.Median < t.least.Effect.Estimate.Median {
			t.least = f
		}
		if t.most == nil || e.Median > t.most.Effect.Estimate.Median {
			t.most = f
		}
	}
	return t
}

// namer names a finding by what the findings differ in.
func (a *grid) namer(findings []Finding) func(*Finding) string {
	differ := func(of func(*Finding) string) bool {
		for i := range findings {
			if of(&findings[i]) != of(&findings[0]) {
				return true
			}
		}
		return false
	}
	rate := func(f *Finding) string {
		if !a.rated(f.Tracer) {
			return ""
		}
		return RatePercent(f.Rate)
	}
	tracers := differ(func(f *Finding) string { return f.Tracer })
	rates := differ(rate)
	workloads := differ(func(f *Finding) string { return f.Workload })
	loads := differ(func(f *Finding) string { return f.Load })
	return func(f *Finding) string {
		var parts []string
		if tracers || rates {
			name := f.Tracer
			if r := rate(f); r != "" {
				name += " at " + r
			}
			parts = append(parts, name)
		}
		if workloads {
			parts = append(parts, f.Workload)
		}
		if loads {
			parts = append(parts, a.loadName(f.Load))
		}
		return strings.Join(parts, ", ")
	}
}

func (t tally) count() string {
	if t.n[0] == t.n[1] {
		return fmt.Sprintf("n=%d", t.n[0])
	}
	return fmt.Sprintf("n=%d to %d", t.n[0], t.n[1])
}

func (t tally) sentence(m record.Metric, said string) string {
	var parts []string
	if t.comparisons > 0 {
		parts = append(parts, t.compared(m, said))
	}
	if len(t.alone) > 0 {
		parts = append(parts, t.values(m))
	}
	if len(parts) == 0 {
		return "no comparison could be made"
	}
	return strings.Join(parts, "; ")
}

func (t tally) compared(m record.Metric, said string) string {
	if t.equal {
		return fmt.Sprintf("the same as %s in every round of %s (%s)", said, plural(t.comparisons, "comparison"), t.count())
	}
	others := t.comparisons - t.distinguishable
	outer := func() string {
		if t.mixed {
			return t.count()
		}
		e := Effect{As: t.as, Estimate: stats.Estimate{Median: t.lo, Lo: t.lo, Hi: t.hi}, Verdict: Verdict{Floor: t.floor}, NoControl: t.noControl}
		_, interval := e.Change(m)
		word := "intervals within "
		if others == 1 {
			word = ""
		}
		return fmt.Sprintf("%s%s, %s, %s", word, interval, e.noise("up to ", m), t.count())
	}
	few := ""
	if t.few > 0 {
		few = fmt.Sprintf("; %d of them rest on fewer than %d rounds, too few to tell", t.few, stats.MinSamples)
	}
	if t.comparisons == 1 {
		return t.first.Text
	}
	if t.few == t.comparisons {
		return fmt.Sprintf("too few rounds to tell from %s in any of %d comparisons (%s; at least %d are needed)", said, t.comparisons, outer(), stats.MinSamples)
	}
	if t.distinguishable == 0 {
		return fmt.Sprintf("not distinguishable from %s in any of %d comparisons (%s)%s", said, t.comparisons, outer(), few)
	}
	// How much comes first, then in how many comparisons, then how sure it is.
	change, facts := t.factsOf(t.least, m)
	if t.distinguishable > 1 {
		most, mostFacts := t.factsOf(t.most, m)
		facts = fmt.Sprintf("%s: %s; %s: %s", change, facts, most, mostFacts)
		if most != change {
			change += " to " + most
		}
	}
	text := fmt.Sprintf("%s against %s in %d of %d comparisons (%s)", change, said, t.distinguishable, t.comparisons, facts)
	switch {
	case others == 1:
		text += fmt.Sprintf("; not distinguishable in the other one (%s)", outer())
	case others > 1:
		text += fmt.Sprintf("; not distinguishable in the other %d (%s)", others, outer())
	}
	if chance(t.distinguishable, t.comparisons) {
		text += "; chance alone would make it up to one in twenty"
	}
	return text + few
}

// factsOf a finding: how great its effect is, and how sure that is.
func (t tally) factsOf(f *Finding, m record.Metric) (change, facts string) {
	change, facts = f.Effect.Change(m)
	if r := f.Effect.Relative; r != nil {
		facts += " or " + percent(r.Median, ratioDecimals(*r)) + ", " + ratioRange(*r)
	}
	facts += fmt.Sprintf(", n=%d", f.Effect.Estimate.N)
	if which := t.name(f); which != "" {
		facts += ", " + which
	}
	return change, facts
}

// values sums up what has no comparison: the least and the greatest.
func (t tally) values(m record.Metric) string {
	least, most := t.alone[0], t.alone[0]
	for _, f := range t.alone[1:] {
		if f.middle() < least.middle() {
			least = f
		}
		if f.middle() > most.middle() {
			most = f
		}
	}
	if least.middle() == most.middle() {
		if len(t.alone) == 1 {
			return least.Text
		}
		return t.alike()
	}
	return fmt.Sprintf("from %s (%s) to %s (%s), over %d variants and cells",
		least.Text, t.name(least), most.Text, t.name(most), len(t.alone))
}

// alike are values that do not differ: the one that is least sure stands for all.
func (t tally) alike() string {
	widest := t.alone[0]
	n := [2]int{widest.size(), widest.size()}
	for _, f := range t.alone {
		n = [2]int{min(n[0], f.size()), max(n[1], f.size())}
		if f.width() > widest.width() {
			widest = f
		}
	}
	return fmt.Sprintf("%s, and the same in each of %d variants and cells, of which this is the least sure (n=%d to %d)", widest.Text, len(t.alone), n[0], n[1])
}

func (f *Finding) size() int {
	if f.Proportion != nil {
		return f.Proportion.N
	}
	return f.Value.N
}

func (f *Finding) width() float64 {
	if f.Proportion != nil {
		return f.Proportion.Hi - f.Proportion.Lo
	}
	return f.Value.Hi - f.Value.Lo
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (f *Finding) middle() float64 {
	if f.Proportion != nil {
		return f.Proportion.Share
	}
	return f.Value.Median
}
