package analysis

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// Results is a directory of results, analysed.
type Results struct {
	Name     string // as the reader knows it: the directory
	Manifest *record.Manifest
	Summary  *Summary
}

// Comparison compares the effects in two directories of results, each of which
// was measured against the baseline of its own directory. It does not compare
// values, which are of two days and maybe of two machines.
type Comparison struct {
	A        string   `json:"a"`
	B        string   `json:"b"`
	Warnings []string `json:"warnings,omitempty"`
	Changes  []Change `json:"changes"`
	// OnlyA and OnlyB are variants, as "cell variant", that the other lacks.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
}

// Change is what became of an effect from A to B.
type Change struct {
	Cell    string `json:"cell"`
	Variant string `json:"variant"`
	Metric  string `json:"metric"`
	As      As     `json:"as"`
	// A and B are the effects against each side's own baseline.
	A stats.Estimate `json:"effect_a"`
	B stats.Estimate `json:"effect_b"`
	// Change of the effect: B over A for ratios, B less A for differences.
	Change stats.Estimate `json:"change"`
	// Verdict compares the change with the same change of the controls.
	Verdict Verdict `json:"verdict"`
}

// Compare compares every effect that both sides have. It fails if there is none.
func Compare(a, b Results) (*Comparison, error) {
	for _, s := range []Results{a, b} {
		if s.Manifest == nil || s.Summary == nil {
			return nil, fmt.Errorf("%s: both a manifest and a summary are needed", s.Name)
		}
	}
	c := &Comparison{A: a.Name, B: b.Name, Warnings: warnings(a, b), Changes: []Change{}}
	inB := map[string]*Variant{}
	cellsB := map[string]*Cell{}
	for i := range b.Summary.Cells {
		cell := &b.Summary.Cells[i]
		cellsB[cell.Name] = cell
		for j := range cell.Variants {
			if v := &cell.Variants[j]; v.Role == Traced {
				inB[cell.Name+" "+v.Name] = v
			}
		}
	}
	for i := range a.Summary.Cells {
		cell := &a.Summary.Cells[i]
		for j := range cell.Variants {
			v := &cell.Variants[j]
			if v.Role != Traced {
				continue
			}
			key := cell.Name + " " + v.Name
			w, ok := inB[key]
			if !ok {
				c.OnlyA = append(c.OnlyA, key)
				continue
			}
			delete(inB, key)
			c.Changes = append(c.Changes, changes(cell, cellsB[cell.Name], v, w)...)
		}
	}
	c.OnlyB = slices.Sorted(maps.Keys(inB))
	if len(c.Changes) == 0 {
		return nil, errors.New(nothing(a, b, c))
	}
	return c, nil
}

func nothing(a, b Results, c *Comparison) string {
	text := fmt.Sprintf("nothing in %s and %s can be compared: they have no effect of the same metric, variant and cell in common", a.Name, b.Name)
	if a.Summary.Experiment != b.Summary.Experiment {
		return text + fmt.Sprintf(" (they are of the experiments %s and %s)", a.Summary.Experiment, b.Summary.Experiment)
	}
	if len(c.OnlyA)+len(c.OnlyB) > 0 {
		return text + "; run both with the same profile"
	}
	return text + "; their runs may be excluded by rules: see each one's report"
}

func changes(cellA, cellB *Cell, a, b *Variant) []Change {
	var out []Change
	for i := range a.Metrics {
		x := &a.Metrics[i]
		m, known := record.MetricOf(x.Metric)
		if !known || m.Worse == 0 || x.Effect == nil {
			continue
		}
		y := b.Effect(x.Metric)
		if y == nil || x.Effect.As != y.As || x.Effect.Estimate.N == 0 || y.Estimate.N == 0 {
			continue
		}
		c := Change{Cell: cellA.Name, Variant: a.Name, Metric: x.Metric, As: y.As, A: x.Effect.Estimate, B: y.Estimate}
		c.Change = between(c.As, values(y.Rounds), values(x.Effect.Rounds))
		noise := stats.Estimate{}
		if k, l := cellA.control(x.Metric), cellB.control(x.Metric); k != nil && l != nil && k.As == c.As && l.As == c.As {
			noise = between(c.As, values(l.Rounds), values(k.Rounds))
		}
		c.Verdict = judge(c.Change, noise, c.As)
		out = append(out, c)
	}
	return out
}

// still says whether there is no effect at all on either side.
func (c *Change) still() bool {
	neutral := c.As.neutral()
	for _, e := range []stats.Estimate{c.A, c.B} {
		if e.Lo != neutral || e.Hi != neutral {
			return false
		}
	}
	return true
}

func (c *Cell) control(metric string) *Control {
	for i := range c.Control {
		if c.Control[i].Metric == metric {
			return &c.Control[i]
		}
	}
	return nil
}

func values(rounds []RoundValue) []float64 {
	xs := make([]float64, len(rounds))
	for i, r := range rounds {
		xs[i] = r.Value
	}
	return xs
}

// between two independent samples of effects. That of ratios is the difference of
// their logarithms.
func between(as As, x, y []float64) stats.Estimate {
	if as == Difference {
		return stats.Difference(x, y)
	}
	logs := func(xs []float64) []float64 {
		out := make([]float64, len(xs))
		for i, v := range xs {
			out[i] = math.Log(v) // of 0 and less not finite, and left out with a warning
		}
		return out
	}
	e := stats.Difference(logs(x), logs(y))
	if e.N > 0 {
		e.Median, e.Lo, e.Hi = math.Exp(e.Median), math.Exp(e.Lo), math.Exp(e.Hi)
	}
	return e
}

// warnings name what differs between the sides beside what was compared.
func warnings(a, b Results) []string {
	var out []string
	differ := func(what, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("%s differs: %s in %s, %s in %s", what, orNone(x), a.Name, orNone(y), b.Name))
		}
	}
	m, n := a.Manifest, b.Manifest
	differ("the experiment", a.Summary.Experiment, b.Summary.Experiment)
	differ("the profile", m.Profile, n.Profile)
	differ("the baseline", a.Summary.Baseline, b.Summary.Baseline)
	differ("the machine", machine(m.Machine), machine(n.Machine))
	differ("the kernel", m.Machine.Kernel, n.Machine.Kernel)
	names := map[string]bool{}
	for k := range m.Versions {
		names[k] = true
	}
	for k := range n.Versions {
		names[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		differ("the version of "+k, m.Versions[k], n.Versions[k])
	}
	if m.Experiment != nil && n.Experiment != nil {
		out = append(out, definitions(a, b)...)
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func machine(m record.Machine) string {
	parts := []string{fmt.Sprintf("%d CPUs", m.CPUs), m.Model, fmt.Sprintf("%.1f GiB", m.MemGiB), m.Arch, m.Distro, m.Virtual}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// definitions finds what carries one name and means two things.
func definitions(a, b Results) []string {
	var out []string
	same := func(what, name string, x, y any) {
		if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", y) {
			out = append(out, fmt.Sprintf("the %s %s is defined otherwise in %s than in %s", what, name, a.Name, b.Name))
		}
	}
	x, y := a.Manifest.Experiment, b.Manifest.Experiment
	for _, w := range x.Workloads {
		for _, v := range y.Workloads {
			if w.Name == v.Name {
				same("workload", w.Name, w, v)
			}
		}
	}
	for _, w := range x.Loads {
		for _, v := range y.Loads {
			if w.Name == v.Name {
				same("load", w.Name, w, v)
			}
		}
	}
	for _, w := range x.Tracers {
		for _, v := range y.Tracers {
			if w.Name == v.Name {
				w.Title, v.Title = "", ""
				same("tracer", w.Name, w, v)
			}
		}
	}
	p, q := x.Profiles[a.Manifest.Profile], y.Profiles[b.Manifest.Profile]
	if p.Window != q.Window || p.Warmup != q.Warmup {
		out = append(out, fmt.Sprintf("the windows differ: %s after %s in %s, %s after %s in %s",
			p.Window, p.Warmup, a.Name, q.Window, q.Warmup, b.Name))
	}
	return out
}
