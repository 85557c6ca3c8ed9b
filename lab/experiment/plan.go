package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sizePlaceholder in a workload's path stands for its size.
const sizePlaceholder = "{size}"

// ControlSuffix ends the name of the baseline's second run in a round.
const ControlSuffix = " again"

// Variant is a tracer at one rate.
type Variant struct {
	Name    string // tracer, or tracer@rate
	Tracer  *Tracer
	Rate    float64 // 0…1; meaningless if the tracer has no rates
	Control bool    // the baseline, the second time in a round
	// Env of the profile, over the tracer's.
	Env map[string]string
}

// Cell is a workload under a load: the variants of a cell are compared.
type Cell struct {
	Name     string // workload/load
	Workload *Workload
	Load     *Load
	Variants []Variant // the baseline first, then its control
}

// FormatRate writes a rate as names of variants and placeholders have it.
func FormatRate(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// Baseline is the name of the variant without tracing.
func (e *Experiment) Baseline() string { return e.Tracers[0].Name }

// Environment is what the variant adds to the environment of the service.
func (v Variant) Environment(p Placeholders) map[string]string {
	return v.expand(p, v.Tracer.Env, v.Tracer.At[FormatRate(v.Rate)], v.Env)
}

// Expected is the configuration that the running service must report.
func (v Variant) Expected(p Placeholders) map[string]string {
	return v.expand(p, v.Tracer.Expect, v.Tracer.ExpectAt[FormatRate(v.Rate)])
}

// expand replaces placeholders in layers, of which later ones override earlier ones.
func (v Variant) expand(p Placeholders, layers ...map[string]string) map[string]string {
	p.Rate = v.Rate
	out := map[string]string{}
	for _, layer := range layers {
		for k, s := range layer {
			out[k] = p.Expand(s)
		}
	}
	return out
}

// Cells is the grid of a profile, in the order of the file.
func (e *Experiment) Cells(profile string) ([]Cell, error) {
	p, ok := e.Profiles[profile]
	if !ok {
		return nil, fmt.Errorf("experiment %s has no profile %q: it has %v", e.Name, profile, e.ProfileNames())
	}
	subsets := p.Cells
	if len(subsets) == 0 {
		subsets = []Subset{{}}
	}
	var cells []Cell
	for i := range e.Workloads {
		for j := range e.Loads {
			w, l := &e.Workloads[i], &e.Loads[j]
			variants := e.variants(w, l, subsets, p.EnvOf)
			if len(variants) == 0 {
				continue
			}
			base := Variant{Name: e.Baseline(), Tracer: &e.Tracers[0], Env: p.EnvOf[e.Baseline()]}
			control := base
			control.Name, control.Control = base.Name+ControlSuffix, true
			cells = append(cells, Cell{
				Name: w.Name + "/" + l.Name, Workload: w, Load: l,
				Variants: append([]Variant{base, control}, variants...),
			})
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("profile %s of experiment %s selects nothing", profile, e.Name)
	}
	return cells, nil
}

// variants that any of the subsets selects for a workload and a load; a cell
// without any is not run.
func (e *Experiment) variants(w *Workload, l *Load, subsets []Subset, envOf map[string]map[string]string) []Variant {
	var out []Variant
	for i := range e.Tracers[1:] {
		t := &e.Tracers[1+i]
		if len(t.Workloads) > 0 && !slices.Contains(t.Workloads, w.Name) {
			continue
		}
		rates := t.Rates
		if len(rates) == 0 {
			rates = []float64{0}
		}
		for _, rate := range rates {
			if slices.ContainsFunc(subsets, func(s Subset) bool { return s.Selects(w.Name, l.Name, t, rate) }) {
				out = append(out, Variant{Name: t.VariantName(rate), Tracer: t, Rate: rate, Env: envOf[t.Name]})
			}
		}
	}
	return out
}

// RootsOfARequest is how many root decisions the tracer takes on a request.
func (t *Tracer) RootsOfARequest() int { return max(1, t.Roots) }

// VariantName names the tracer at a rate.
func (t *Tracer) VariantName(rate float64) string {
	if len(t.Rates) == 0 {
		return t.Name
	}
	return t.Name + "@" + FormatRate(rate)
}

// Selects reports whether the subset holds this variant of this cell.
func (s Subset) Selects(workload, load string, t *Tracer, rate float64) bool {
	if !s.SelectsCell(workload, load) || len(s.Tracers) > 0 && !slices.Contains(s.Tracers, t.Name) {
		return false
	}
	rates, restricted := s.Rates[t.Name]
	return !restricted || slices.Contains(rates, rate)
}

// SelectsCell reports whether the subset holds this workload under this load.
func (s Subset) SelectsCell(workload, load string) bool {
	return (len(s.Workloads) == 0 || slices.Contains(s.Workloads, workload)) &&
		(len(s.Loads) == 0 || slices.Contains(s.Loads, load))
}

// RequestPath is the path of every request, with its placeholder replaced.
func (w *Workload) RequestPath() string {
	return strings.ReplaceAll(w.Path, sizePlaceholder, strconv.Itoa(w.Size))
}

// MostRounds is how many rounds the profile has for the tracer that has most.
func (p Profile) MostRounds() int {
	most := p.Rounds
	for _, n := range p.RoundsOf {
		most = max(most, n)
	}
	return most
}

// Holds reports whether a variant of the cell is run in a round, counted from 0.
// The baseline is there whenever another is, since effects are ratios within a round.
func (p Profile) Holds(c *Cell, v Variant, round int) bool {
	rounds := func(v Variant) int {
		if n, ok := p.RoundsOf[v.Tracer.Name]; ok {
			return n
		}
		return p.Rounds
	}
	if v.Tracer == c.Variants[0].Tracer {
		return round < p.Rounds || slices.ContainsFunc(c.Variants, func(v Variant) bool { return round < rounds(v) })
	}
	return round < rounds(v)
}

// WarmupOf is the profile's warm-up, or the workload's if that is longer.
func (p Profile) WarmupOf(w *Workload) time.Duration {
	return max(p.Warmup.Std(), w.Warmup.Std())
}
