package analysis

import (
	"github.com/tare-trace/tare/lab/experiment"
)

// ratePanels show the rates of samplers over the seconds of one run: the first of
// each variant that counts, since a median over rounds would smooth away how a
// rate changes.
func (a *grid) ratePanels(f experiment.Figure) []Panel {
	items := a.items(f)
	l := a.layout(f, items)
	order, groups := groupBy(items, l.panelOf)
	var out []Panel
	for _, name := range order {
		p := Panel{Title: name, Metric: yRates, XLabel: "seconds since the window began", YLabel: "sampling rate in force"}
		if name == "" {
			p.Title = p.YLabel
		}
		names, series := groupBy(groups[name], l.seriesOf)
		for _, n := range names {
			// What the figure does not show apart are cells, of which the first stands for all.
			if s := rateSeries(n, series[n][0].b); len(s.Points) > 0 {
				p.Series = append(p.Series, s)
			}
		}
		if len(p.Series) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func rateSeries(name string, b *bunch) Series {
	s := Series{Name: name}
	for _, r := range b.measured {
		if len(r.Sampler) == 0 {
			continue
		}
		for _, state := range r.Sampler {
			s.Points = append(s.Points, Point{X: state.At, Y: state.Rate, Lo: state.Rate, Hi: state.Rate, N: 1})
		}
		break
	}
	return s
}
