package analysis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// panels of one metric.
func (a *grid) panels(f experiment.Figure, m record.Metric) []Panel {
	items := a.items(f)
	l := a.layout(f, items)
	numeric := l.numeric(items)
	order, groups := groupBy(items, l.panelOf)
	var out []Panel
	for _, name := range order {
		p := Panel{Title: name, Metric: m.Key, XLabel: l.xLabel(numeric)}
		p.label(f, m)
		if name == "" {
			p.Title = p.YLabel
		} else if len(f.Y) > 1 {
			p.Title = m.Name + ", " + name
		}
		of := groups[name]
		if f.Mean != "" {
			var common []string
			of, common = l.common(of)
			p.Title += "; mean of " + strings.Join(common, ", ")
		}
		if !l.fill(&p, of, m, numeric) {
			continue
		}
		out = append(out, p)
	}
	return out
}

func (l layout) xLabel(numeric bool) string {
	switch {
	case l.f.X == "rate":
		return "sampling rate"
	case l.f.X == "size":
		return "size of the payload"
	case l.f.X == "load" && numeric:
		return "offered load (requests/s)"
	}
	return ""
}

// label is the title of the y axis.
func (p *Panel) label(f experiment.Figure, m record.Metric) {
	unit := m.Unit
	if unit == "1" {
		unit = ""
	}
	switch f.As {
	case "ratio":
		p.Percent, p.Neutral = true, true
		p.YLabel = m.Name + ", change (%)"
		return
	case "added":
		p.Neutral = true
		p.YLabel = m.Name + ", added"
	default:
		p.YLabel = m.Name
	}
	if unit != "" {
		p.YLabel += " (" + unit + ")"
	}
}

// common keeps what a mean may be taken over: the cells that have every variant
// of the panel, as a mean of two workloads and a mean of five are no two points
// of one line.
func (l layout) common(items []item) ([]item, []string) {
	place := func(it item) string { return l.seriesOf(it) + "\x00" + l.a.dim(it, "variant") + "\x00" + l.xKey(it) }
	_, points := groupBy(items, place)
	dims, _ := groupBy(items, func(it item) string { return l.a.dim(it, l.f.Mean) })
	var keep []string
	for _, d := range dims {
		everywhere := true
		for _, of := range points {
			everywhere = everywhere && slices.ContainsFunc(of, func(it item) bool {
				return l.a.dim(it, l.f.Mean) == d && len(it.b.measured) > 0
			})
		}
		if everywhere {
			keep = append(keep, d)
		}
	}
	var out []item
	for _, it := range items {
		if slices.Contains(keep, l.a.dim(it, l.f.Mean)) {
			out = append(out, it)
		}
	}
	return out, keep
}

// xKey tells points of a series apart.
func (l layout) xKey(it item) string {
	if l.flat(it) {
		return ""
	}
	return l.a.dim(it, l.f.X)
}

// fill makes the series of a panel and says whether there is any point.
func (l layout) fill(p *Panel, items []item, m record.Metric, numeric bool) bool {
	var labels []string
	if !numeric {
		labels = l.labels(items)
		p.Labels = labels
	}
	order, series := groupBy(items, l.seriesOf)
	for _, name := range order {
		s := Series{Name: name}
		xs, points := groupBy(series[name], l.xKey)
		for _, x := range xs {
			of := points[x]
			pt, floor, ok := l.point(of, m)
			if !ok {
				continue
			}
			p.Floor = max(p.Floor, floor)
			switch {
			case l.flat(of[0]) && numeric:
				s.Flat = true
			case numeric:
				pt.X = l.x(of[0])
			default:
				pt.X = float64(slices.Index(labels, x))
			}
			s.Points = append(s.Points, pt)
		}
		if len(s.Points) == 0 {
			continue
		}
		slices.SortStableFunc(s.Points, func(x, y Point) int { return cmp.Compare(x.X, y.X) })
		p.Series = append(p.Series, s)
	}
	p.shorten()
	return len(p.Series) > 0
}

// shorten leaves out labels that no point is at: a profile may run some of the
// variants on some of the workloads only.
func (p *Panel) shorten() {
	var kept []string
	for i, label := range p.Labels {
		used := false
		for _, s := range p.Series {
			for k := range s.Points {
				if pt := &s.Points[k]; pt.X == float64(i) {
					pt.X, used = float64(len(kept)), true
				}
			}
		}
		if used {
			kept = append(kept, label)
		}
	}
	p.Labels = kept
}

// labels of an axis without numbers, in the order of the experiment; rates by
// size.
func (l layout) labels(items []item) []string {
	order, groups := groupBy(items, l.xKey)
	if l.f.X == "rate" {
		slices.SortStableFunc(order, func(x, y string) int {
			return cmp.Compare(groups[x][0].b.rate, groups[y][0].b.rate)
		})
	}
	return order
}

// point estimates what a point shows: of one cell, or the mean of several within
// each round.
func (l layout) point(items []item, m record.Metric) (Point, float64, bool) {
	as, compared := l.compare(items, m)
	if l.f.As == "ratio" && as != Ratio {
		return Point{}, 0, false // of 0 there is no ratio
	}
	var values, effects, controls []byRound
	for _, it := range items {
		x := it.b.values(m)
		effects = append(effects, as.against(x, l.against(it, m)))
		_, k := it.p.control(m, as)
		controls = append(controls, k)
		values = append(values, x)
	}
	effect := stats.Interval(mean(effects).list())
	e := effect
	if l.f.As == "value" {
		xs := mean(values).list()
		if len(xs) == 0 && len(items) == 1 {
			xs, _ = items[0].b.apart(m)
		}
		e = stats.Interval(xs)
	}
	if e.N == 0 {
		return Point{}, 0, false
	}
	pt := Point{Y: e.Median, Lo: e.Lo, Hi: e.Hi, N: e.N}
	floor := 0.0
	if compared && effect.N > 0 {
		v := judge(effect, stats.Interval(mean(controls).list()), as)
		pt.Distinguishable = &v.Distinguishable
		if l.f.As != "value" {
			floor = v.Floor
		}
	}
	if l.f.As == "ratio" {
		pt.Y, pt.Lo, pt.Hi = pt.Y-1, pt.Lo-1, pt.Hi-1
	}
	return pt, floor, true
}

// compare says how, and whether "distinguishable from the baseline" is a
// question at all.
func (l layout) compare(items []item, m record.Metric) (As, bool) {
	as, compared := Ratio, m.Worse != 0
	for _, it := range items {
		if it.p.comparedAs(m) == Difference {
			as = Difference
		}
		compared = compared && it.b.role != Baseline
	}
	if l.f.As == "added" {
		as = Difference
	}
	return as, compared
}

// against is what an item is compared with: the control with the baseline's
// first run alone, all others with the mean of both.
func (l layout) against(it item, m record.Metric) byRound {
	if it.b.role == Again {
		return it.p.of(Baseline).values(m)
	}
	return it.p.untraced(m)
}

// mean within each round, over the rounds that all have.
func mean(of []byRound) byRound {
	v := byRound{}
	if len(of) == 0 {
		return v
	}
	for r, x := range of[0] {
		sum, n := x, 1
		for _, o := range of[1:] {
			if y, ok := o[r]; ok {
				sum += y
				n++
			}
		}
		if n == len(of) {
			v[r] = sum / float64(n)
		}
	}
	return v
}
