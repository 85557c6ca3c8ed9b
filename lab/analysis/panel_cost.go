package analysis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/profile"
)

// sharePanels are CPU profiles as stacked bars, a panel for each cell.
func (a *grid) sharePanels(s *Summary, f experiment.Figure) []Panel {
	var out []Panel
	for _, cell := range a.cellNames {
		p := a.places[cell]
		panel := Panel{Title: cell, Metric: yShares, YLabel: "CPU (µs/request)", Neutral: f.As != "value"}
		if f.As != "value" {
			panel.YLabel = "CPU, added (µs/request)"
		}
		series := map[string]*Series{}
		var order []string
		some := spentOn(s, cell)
		for _, prof := range s.CPU {
			b := p.variants[prof.Variant]
			if prof.Cell != cell || !a.picks(f.Where, p, b) || f.As != "value" && b.role != Traced {
				continue
			}
			x := float64(len(panel.Labels))
			panel.Labels = append(panel.Labels, Label(b.name))
			for _, c := range prof.Categories {
				if !some[c.Category] {
					continue
				}
				e := &c.Value
				if f.As != "value" {
					e = c.Added
				}
				if e == nil || e.N == 0 {
					continue
				}
				if series[c.Category] == nil {
					series[c.Category] = &Series{Name: c.Category}
					order = append(order, c.Category)
				}
				series[c.Category].Points = append(series[c.Category].Points, Point{X: x, Y: e.Median, Lo: e.Lo, Hi: e.Hi, N: e.N})
			}
		}
		// What tracing adds is at the bottom, where it is read best, and every
		// part has its colour in all figures of the cell.
		place := func(name string) int {
			if i := slices.Index(profile.Categories, name); i >= 0 {
				return i
			}
			return len(profile.Categories)
		}
		slices.SortStableFunc(order, func(x, y string) int {
			return cmp.Or(place(x)-place(y), strings.Compare(x, y))
		})
		for _, name := range order {
			panel.Series = append(panel.Series, *series[name])
		}
		if len(panel.Series) > 0 {
			out = append(out, panel)
		}
	}
	return out
}

// spentOn are the categories that any profile of the cell has.
func spentOn(s *Summary, cell string) map[string]bool {
	some := map[string]bool{}
	for _, prof := range s.CPU {
		for _, c := range prof.Categories {
			if prof.Cell == cell && c.Value.Median > 0 {
				some[c.Category] = true
			}
		}
	}
	return some
}

// programPanels are the kernel programs' ns per run, a panel for each cell and a
// line for each program.
func (a *grid) programPanels(s *Summary, f experiment.Figure) []Panel {
	var out []Panel
	for _, cell := range a.cellNames {
		p := a.places[cell]
		l := a.layout(f, a.items(f))
		numeric := f.X == "rate" && f.Form != "bar"
		panel := Panel{Title: cell, Metric: yPrograms, YLabel: "ns per run", XLabel: l.xLabel(numeric)}
		tracers := map[string]bool{}
		for _, c := range s.Programs {
			if c.Cell == cell && a.picks(f.Where, p, p.variants[c.Variant]) {
				tracers[c.Tracer] = true
			}
		}
		var order []string
		series := map[string]*Series{}
		for _, c := range s.Programs {
			if c.Cell != cell {
				continue
			}
			b := p.variants[c.Variant]
			if !a.picks(f.Where, p, b) {
				continue
			}
			name := c.Program
			if len(tracers) > 1 && f.X != "variant" && f.X != "tracer" {
				name += ", " + c.Tracer
			}
			if series[name] == nil {
				series[name] = &Series{Name: name}
				order = append(order, name)
			}
			x := c.Rate
			if !numeric {
				label := Label(b.name)
				if !slices.Contains(panel.Labels, label) {
					panel.Labels = append(panel.Labels, label)
				}
				x = float64(slices.Index(panel.Labels, label))
			}
			e := c.NsPerRun
			series[name].Points = append(series[name].Points, Point{X: x, Y: e.Median, Lo: e.Lo, Hi: e.Hi, N: e.N})
		}
		for _, name := range order {
			panel.Series = append(panel.Series, *series[name])
		}
		if len(panel.Series) > 0 {
			out = append(out, panel)
		}
	}
	return out
}
