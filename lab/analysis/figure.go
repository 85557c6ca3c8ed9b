package analysis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

// Special values of experiment.Figure.Y.
const (
	yShares   = "shares"
	yPrograms = "programs"
	yRates    = "rates"
)

// figures makes the data of every figure of the experiment. One that has no data
// says why; one that asks for what cannot be drawn is an error.
func (a *grid) figures(s *Summary) ([]Figure, error) {
	var out []Figure
	for _, f := range a.e.Figures {
		fig := Figure{ID: f.ID, Title: f.Title, Source: f.Source, X: f.X, As: f.As, Form: f.Form, Log: f.Log, Mean: f.Mean}
		if fig.Form == "" {
			fig.Form = "line"
		}
		for _, y := range f.Y {
			switch y {
			case yShares:
				fig.Form = "stack"
				fig.Panels = append(fig.Panels, a.sharePanels(s, f)...)
			case yPrograms:
				fig.Panels = append(fig.Panels, a.programPanels(s, f)...)
			case yRates:
				fig.Panels = append(fig.Panels, a.ratePanels(f)...)
			default:
				m, ok := record.MetricOf(y)
				if !ok {
					return nil, fmt.Errorf("figure %s: there is no metric %q", f.ID, y)
				}
				fig.Panels = append(fig.Panels, a.panels(f, m)...)
			}
		}
		if len(fig.Panels) == 0 {
			fig.Missing = "no run that counts is of what this figure shows"
		}
		out = append(out, fig)
	}
	return out, nil
}

// item is a variant in a cell that a figure shows.
type item struct {
	p *place
	b *bunch
}

// items that a figure selects. The baseline and its control are shown by value,
// and where variants stand side by side the control also shows what noise is.
func (a *grid) items(f experiment.Figure) []item {
	var out []item
	for _, cell := range a.cellNames {
		p := a.places[cell]
		for _, name := range p.order {
			b := p.variants[name]
			switch {
			case !a.picks(f.Where, p, b):
			case b.role == Baseline && f.As != "value":
			case b.role == Again && (f.X != "variant" || f.As == "value"):
			default:
				out = append(out, item{p, b})
			}
		}
	}
	return out
}

// dim is an item's place in a dimension, as legends and axes write it.
func (a *grid) dim(it item, dimension string) string {
	switch dimension {
	case "workload":
		return it.p.workload
	case "load":
		return a.loadName(it.p.load)
	case "tracer":
		return it.b.tracer
	case "rate":
		if a.rated(it.b.tracer) {
			return RatePercent(it.b.rate)
		}
		return ""
	case "variant":
		return Label(it.b.name)
	case "size":
		return Tick(float64(a.sizeOf(it.p.workload)), dimension)
	}
	return ""
}

// layout says which dimension is shown how.
type layout struct {
	a    *grid
	f    experiment.Figure
	rest []string // dimensions that nothing shows and that vary: they are added to the series
}

func (a *grid) layout(f experiment.Figure, items []item) layout {
	l := layout{a: a, f: f}
	shown := map[string]bool{f.X: true, f.Series: true, f.Panel: true, f.Mean: true}
	switch f.X {
	case "variant":
		shown["tracer"], shown["rate"] = true, true
	case "size":
		shown["workload"] = true // there is one of each size
	}
	for _, d := range []string{"workload", "load", "tracer", "rate"} {
		if shown[d] {
			continue
		}
		values := map[string]bool{}
		for _, it := range items {
			if v := a.dim(it, d); v != "" {
				values[v] = true
			}
		}
		if len(values) > 1 {
			l.rest = append(l.rest, d)
		}
	}
	return l
}

func (l layout) panelOf(it item) string { return l.a.dim(it, l.f.Panel) }

// seriesOf names the line or the colour: two variants that differ in whatever
// the figure does not show must not be one.
func (l layout) seriesOf(it item) string {
	var parts []string
	if l.f.Series != "" {
		parts = append(parts, l.a.dim(it, l.f.Series))
	}
	for _, d := range l.rest {
		if v := l.a.dim(it, d); v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ", ")
}

// flat items have no place on an axis of rates.
func (l layout) flat(it item) bool { return l.f.X == "rate" && !l.a.rated(it.b.tracer) }

// numeric says whether the x axis is one of numbers, and where an item is on it.
func (l layout) numeric(items []item) bool {
	if l.f.Form == "bar" {
		return false
	}
	switch l.f.X {
	case "rate", "size":
		return true
	case "load":
		for _, it := range items {
			if l.a.openRate(it.p.load) == 0 {
				return false
			}
		}
		return true
	}
	return false
}

// openRate is the rate of an open loop that is the same in all cells, or 0.
func (a *grid) openRate(load string) float64 {
	for _, l := range a.e.Loads {
		if l.Name == load && !l.OrMost {
			return l.Rate
		}
	}
	return 0
}

// sizeOf is the size of a workload's payload in bytes.
func (a *grid) sizeOf(workload string) int {
	for _, w := range a.e.Workloads {
		if w.Name == workload {
			return w.Size
		}
	}
	return 0
}

func (l layout) x(it item) float64 {
	switch l.f.X {
	case "rate":
		return it.b.rate
	case "size":
		return float64(l.a.sizeOf(it.p.workload))
	}
	return l.a.openRate(it.p.load)
}

// groupBy keeps the order of first appearance.
func groupBy[T any](items []T, key func(T) string) (order []string, groups map[string][]T) {
	groups = map[string][]T{}
	for _, it := range items {
		k := key(it)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], it)
	}
	return order, groups
}

// Tick writes a number of an axis of rates, sizes (in bytes), seconds or loads.
func Tick(x float64, of string) string {
	unit := ""
	switch {
	case of == "rate":
		return RatePercent(x)
	case of == "time":
		return strconv.FormatFloat(x, 'f', 2, 64)
	case of != "size":
	case x >= 1e6:
		x, unit = x/1e6, " MB"
	case x >= 1e3:
		x, unit = x/1e3, " KB"
	default:
		unit = " bytes"
	}
	return strconv.FormatFloat(x, 'f', -1, 64) + unit
}
