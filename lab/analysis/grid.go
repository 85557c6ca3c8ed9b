package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

// grid is the runs that count, by where they belong.
type grid struct {
	m        *record.Manifest
	e        *experiment.Experiment
	runs     []record.Run
	kept     []bool
	baseline string
	// names of cells and variants, in the order of the experiment
	cellNames []string
	places    map[string]*place // by cell
	cells     []Cell            // the results, once they are there
}

// place is a cell's runs.
type place struct {
	workload, load string
	order          []string // variants
	variants       map[string]*bunch
	measured       map[string]bool // metrics that any kept run of the cell has
}

// bunch is a variant's runs in a cell.
type bunch struct {
	p            *place
	name, tracer string
	rate         float64
	role         Role
	runs         int
	measured     []*record.Run // kept, by round
	profiled     []*record.Run
	checked      []*record.Run
}

// known refuses runs of another experiment.
func known(e *experiment.Experiment, runs []record.Run) error {
	tracers := map[string]bool{}
	for _, t := range e.Tracers {
		tracers[t.Name] = true
	}
	for i := range runs {
		r := &runs[i]
		if !tracers[r.Tracer] {
			return fmt.Errorf("run %s is of tracer %q, which the manifest's experiment does not have: are the results of another experiment?", r.ID, r.Tracer)
		}
		switch r.Kind {
		case record.Measured, record.Profiled, record.Checked:
		default:
			return fmt.Errorf("run %s is of the unknown kind %q: was it written by a newer version?", r.ID, r.Kind)
		}
	}
	return nil
}

// index groups the runs. Those of a cell that the experiment does not list keep
// their place after the others.
func index(m *record.Manifest, runs []record.Run, kept []bool) (*grid, error) {
	e := m.Experiment
	a := &grid{m: m, e: e, runs: runs, kept: kept, baseline: e.Tracers[0].Name, places: map[string]*place{}}
	type slot struct {
		kind          record.Kind
		cell, variant string
		round         int
	}
	taken := map[slot]string{}
	for i := range runs {
		r := &runs[i]
		p := a.places[r.Cell]
		if p == nil {
			p = &place{workload: r.Workload, load: r.Load, variants: map[string]*bunch{}, measured: map[string]bool{}}
			a.places[r.Cell] = p
		}
		b := p.variants[r.Variant]
		if b == nil {
			b = &bunch{p: p, name: r.Variant, tracer: r.Tracer, rate: r.Rate, role: a.role(r)}
			p.variants[r.Variant] = b
		}
		if r.Kind == record.Measured {
			b.runs++
		}
		if !kept[i] {
			continue
		}
		at := slot{r.Kind, r.Cell, r.Variant, r.Round}
		if other, ok := taken[at]; ok {
			return nil, fmt.Errorf("runs %s and %s are both of %s, %s, round %d: one of them must go from the results", other, r.ID, r.Cell, r.Variant, r.Round)
		}
		taken[at] = r.ID
		switch r.Kind {
		case record.Measured:
			b.measured = append(b.measured, r)
			for key := range r.Values {
				p.measured[key] = true
			}
		case record.Profiled:
			b.profiled = append(b.profiled, r)
		case record.Checked:
			b.checked = append(b.checked, r)
		}
	}
	a.sort()
	return a, nil
}

func (a *grid) role(r *record.Run) Role {
	switch {
	case r.Tracer != a.baseline:
		return Traced
	case strings.HasSuffix(r.Variant, experiment.ControlSuffix):
		return Again
	}
	return Baseline
}

// sort orders cells, variants and runs, so that nothing depends on the order of
// the records.
func (a *grid) sort() {
	workloads, loads, tracers := map[string]int{}, map[string]int{}, map[string]int{}
	for i, w := range a.e.Workloads {
		workloads[w.Name] = i - len(a.e.Workloads)
	}
	for i, l := range a.e.Loads {
		loads[l.Name] = i - len(a.e.Loads)
	}
	for i, t := range a.e.Tracers {
		tracers[t.Name] = i
	}
	a.cellNames = slices.SortedFunc(maps.Keys(a.places), func(x, y string) int {
		p, q := a.places[x], a.places[y]
		return cmp.Or(workloads[p.workload]-workloads[q.workload], loads[p.load]-loads[q.load], strings.Compare(x, y))
	})
	roles := map[Role]int{Baseline: 0, Again: 1, Traced: 2}
	byRound := func(x, y *record.Run) int { return cmp.Or(x.Round-y.Round, strings.Compare(x.ID, y.ID)) }
	for _, p := range a.places {
		p.order = slices.SortedFunc(maps.Keys(p.variants), func(x, y string) int {
			b, c := p.variants[x], p.variants[y]
			return cmp.Or(roles[b.role]-roles[c.role], tracers[b.tracer]-tracers[c.tracer], cmp.Compare(b.rate, c.rate), strings.Compare(x, y))
		})
		for _, b := range p.variants {
			slices.SortFunc(b.measured, byRound)
			slices.SortFunc(b.profiled, byRound)
			slices.SortFunc(b.checked, byRound)
		}
	}
}

// of returns the bunch of a role that is there once per cell, or an empty one.
func (p *place) of(role Role) *bunch {
	for _, name := range p.order {
		if b := p.variants[name]; b.role == role {
			return b
		}
	}
	return &bunch{p: p, role: role}
}

// offered is the rate of a cell's open loop.
func (a *grid) offered(cell string) (rate float64, connections int) {
	for _, l := range a.e.Loads {
		if l.Name != a.places[cell].load {
			continue
		}
		rate, connections = l.Rate, l.Connections
		if c, ok := a.m.Calibrated[cell]; ok && rate > 0 {
			rate = c
		}
	}
	return rate, connections
}

// picks says whether a subset selects a variant in a cell.
func (a *grid) picks(s experiment.Subset, p *place, b *bunch) bool {
	t := a.tracer(b.tracer)
	return t != nil && s.Selects(p.workload, p.load, t, b.rate)
}

func (a *grid) tracer(name string) *experiment.Tracer {
	for i := range a.e.Tracers {
		if a.e.Tracers[i].Name == name {
			return &a.e.Tracers[i]
		}
	}
	return nil
}

// rated says whether a tracer runs at sampling rates.
func (a *grid) rated(name string) bool {
	t := a.tracer(name)
	return t != nil && len(t.Rates) > 0
}
