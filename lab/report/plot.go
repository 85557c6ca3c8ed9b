package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tare-trace/tare/lab/analysis"
)

const (
	panelWidth  vg.Length = 280
	panelHeight vg.Length = 205
	// slanted labels of variants need room below the axis
	labelledHeight vg.Length = 255
	// a panel of more labels is as wide as they need, and they are steeper
	manyLabels                = 14
	labelWidth      vg.Length = 21
	axisWidth       vg.Length = 60 // what a panel's axis and margins take of its width
	slant, steepest           = math.Pi / 5, math.Pi / 3
)

// chart draws a figure. Series of one name have one colour in all panels.
type chart struct {
	fig    *analysis.Figure
	series []string
	// of a panel
	width, height vg.Length
	wide          bool
	slant         float64
}

func newChart(fig *analysis.Figure) *chart {
	c := &chart{fig: fig, width: panelWidth, height: panelHeight, slant: slant}
	sty := lettering(11, ink, false)
	for i := range fig.Panels {
		p := &fig.Panels[i]
		for _, s := range p.Series {
			if !slices.Contains(c.series, s.Name) {
				c.series = append(c.series, s.Name)
			}
		}
		if !slanted(p) {
			continue
		}
		c.height = max(c.height, labelledHeight)
		n := vg.Length(len(p.Labels))
		if len(p.Labels) > manyLabels {
			c.wide, c.slant = true, steepest
			c.width = max(c.width, axisWidth+labelWidth*n)
		}
		// What reaches further out of the panel at its left would be cut.
		if sty.Width(p.Labels[0])*vg.Length(math.Cos(slant)) > gap+axisWidth/2+(panelWidth-axisWidth)/n/2 {
			c.slant = steepest
		}
	}
	if c.slant != steepest {
		return c
	}
	for _, p := range fig.Panels {
		for _, l := range p.Labels {
			c.height = max(c.height, panelHeight+sty.Width(l)*vg.Length(math.Sin(steepest)))
		}
	}
	return c
}

func (c *chart) index(series string) int { return slices.Index(c.series, series) }

// slanted says whether the labels of the x axis would run into each other.
func slanted(p *analysis.Panel) bool {
	if len(p.Labels) == 0 {
		return false
	}
	sty, all := lettering(11, ink, false), vg.Length(0)
	for _, l := range p.Labels {
		all = max(all, sty.Width(l))
	}
	return (all+8)*vg.Length(len(p.Labels)) > panelWidth-axisWidth
}

// panel makes the plot of one panel.
func (c *chart) panel(p *analysis.Panel) (*plot.Plot, error) {
	pl := plot.New()
	pl.BackgroundColor = paper
	pl.Title.Text = ""
	c.axes(pl, p)
	x, y := pl.X, pl.Y
	var err error
	switch {
	case c.fig.Form == "stack":
		c.stack(pl, p)
	case len(p.Labels) > 0 && c.fig.Form == "bar":
		err = c.bars(pl, p)
	default:
		err = c.lines(pl, p)
	}
	if err != nil {
		return nil, fmt.Errorf("figure %s, %s: %w", c.fig.ID, p.Title, err)
	}
	// Adding what is drawn may have widened the axes, which all panels share.
	pl.X.Min, pl.X.Max, pl.Y.Min, pl.Y.Max = x.Min, x.Max, y.Min, y.Max
	return pl, nil
}

func (c *chart) axes(pl *plot.Plot, p *analysis.Panel) {
	r := yRange(c.fig, p.Metric)
	pl.Y.Min, pl.Y.Max = r.lo, r.hi
	small := lettering(11, ink, false)
	for _, axis := range []*plot.Axis{&pl.X, &pl.Y} {
		align := axis.Tick.Label
		axis.Tick.Label = small
		axis.Tick.Label.XAlign, axis.Tick.Label.YAlign = align.XAlign, align.YAlign
		axis.Tick.LineStyle.Color, axis.LineStyle.Color = muted, muted
		label := lettering(11, muted, false)
		label.XAlign, label.YAlign = axis.Label.TextStyle.XAlign, axis.Label.TextStyle.YAlign
		axis.Label.TextStyle = label
		axis.Padding = 0
	}
	pl.Y.LineStyle.Width, pl.Y.Tick.LineStyle.Width, pl.Y.Tick.Length = 0, 0, 2
	pl.Y.Tick.Marker = yTicks{p.Percent}
	pl.X.Tick.Length = 4
	pl.X.Label.Text = p.XLabel

	lines := plotter.NewGrid()
	lines.Vertical.Width = 0
	lines.Horizontal.Color, lines.Horizontal.Width = grid, 0.75
	pl.Add(lines)
	if p.Neutral {
		if p.Floor > 0 {
			pl.Add(band{-p.Floor, p.Floor, noise})
		}
		pl.Add(level{0, draw.LineStyle{Color: muted, Width: 1}})
	}
	if len(p.Labels) > 0 {
		c.labels(pl, p)
	} else {
		c.numbers(pl, p)
	}
}

func (c *chart) labels(pl *plot.Plot, p *analysis.Panel) {
	var ticks fixedTicks
	for i, l := range p.Labels {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: l})
	}
	pl.X.Tick.Marker = ticks
	pl.X.Min, pl.X.Max = -0.5, float64(len(p.Labels))-0.5
	if slanted(p) {
		pl.X.Tick.Label.Rotation = c.slant
		pl.X.Tick.Label.XAlign, pl.X.Tick.Label.YAlign = text.XRight, text.YTop
	}
}

// numbers are the values of x that there are; all panels of a figure share them.
func (c *chart) numbers(pl *plot.Plot, p *analysis.Panel) {
	var xs []float64
	for _, q := range c.fig.Panels {
		for _, s := range q.Series {
			for _, pt := range s.Points {
				if !s.Flat {
					xs = append(xs, pt.X)
				}
			}
		}
	}
	if len(xs) == 0 { // flat series only
		pl.X.Min, pl.X.Max, pl.X.Tick.Marker = 0, 1, fixedTicks{}
		return
	}
	lo, hi := slices.Min(xs), slices.Max(xs)
	if c.logarithmic() {
		pl.X.Scale = plot.LogScale{}
		room := math.Pow(hi/lo, 0.04)
		if room == 1 {
			room = 1.5
		}
		pl.X.Min, pl.X.Max = lo/room, hi*room
	} else {
		room := (hi - lo) * 0.04
		if room == 0 {
			room = 0.5
		}
		pl.X.Min, pl.X.Max = lo-room, hi+room
	}
	if c.overTime() {
		pl.X.Tick.Marker = yTicks{}
		return
	}
	pl.X.Tick.Marker = xTicks(xs, c.fig.X, pl.X.Scale, c.width-70)
}

// overTime: x is a time, of which there are too many to mark each.
func (c *chart) overTime() bool { return c.fig.X == "time" }

// logarithmic where it is asked for and every x is above 0.
func (c *chart) logarithmic() bool {
	for _, p := range c.fig.Panels {
		for _, s := range p.Series {
			for _, pt := range s.Points {
				if !s.Flat && pt.X <= 0 {
					return false
				}
			}
		}
	}
	return c.fig.Log
}

// errorPoints are points with their intervals, as plotter has them.
type errorPoints struct {
	plotter.XYs
	plotter.YErrors
}

// lines with error bars. Series are moved aside a little, so that the intervals of
// equal x do not hide each other.
func (c *chart) lines(pl *plot.Plot, p *analysis.Panel) error {
	upright := slices.DeleteFunc(slices.Clone(p.Series), func(s analysis.Series) bool { return s.Flat })
	i := -1
	for _, s := range p.Series {
		k := c.index(s.Name)
		if s.Flat {
			pt := s.Points[0]
			pl.Add(band{pt.Lo, pt.Hi, faint(colour(k), 0x28)},
				level{pt.Y, draw.LineStyle{Color: colour(k), Width: 1.5, Dashes: []vg.Length{3, 3}}})
			continue
		}
		i++
		e := errorPoints{}
		for _, pt := range s.Points {
			e.XYs = append(e.XYs, plotter.XY{X: c.aside(pl, pt.X, i, len(upright)), Y: pt.Y})
			e.YErrors = append(e.YErrors, struct{ Low, High float64 }{pt.Y - pt.Lo, pt.Hi - pt.Y})
		}
		line, err := plotter.NewLine(e.XYs)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = colour(k), 1.5, dashes[k%len(dashes)]
		if c.overTime() { // a rate holds until the next one
			line.StepStyle = plotter.PostStep
			pl.Add(line)
			continue
		}
		whiskers, err := plotter.NewYErrorBars(e)
		if err != nil {
			return err
		}
		whiskers.Color, whiskers.LineStyle.Width, whiskers.CapWidth = colour(k), 1, 5
		marks, err := plotter.NewScatter(e.XYs)
		if err != nil {
			return err
		}
		points := s.Points
		marks.GlyphStyleFunc = func(i int) draw.GlyphStyle {
			return draw.GlyphStyle{Color: colour(k), Radius: 3.8, Shape: shape(k, points[i])}
		}
		if len(p.Labels) == 0 {
			pl.Add(line)
		}
		pl.Add(whiskers, marks)
	}
	return nil
}

func shape(series int, pt analysis.Point) draw.GlyphDrawer {
	if pt.Distinguishable != nil && !*pt.Distinguishable {
		return hollow[series%len(hollow)]
	}
	return filled[series%len(filled)]
}

// aside moves x by a part of the axis, by the place among n series.
func (c *chart) aside(pl *plot.Plot, x float64, i, n int) float64 {
	if c.overTime() {
		return x
	}
	by := 0.013 * (float64(i) - float64(n-1)/2)
	if len(c.fig.Panels) > 0 && pl.X.Scale != nil && c.logarithmic() {
		if _, ok := pl.X.Scale.(plot.LogScale); ok {
			return x * math.Pow(pl.X.Max/pl.X.Min, by)
		}
	}
	return x + by*(pl.X.Max-pl.X.Min)
}

// bars side by side, with error bars.
func (c *chart) bars(pl *plot.Plot, p *analysis.Panel) error {
	const group = 0.76 // of the room between two labels
	n := float64(len(p.Series))
	width := min(group/n, 0.4)
	for i, s := range p.Series {
		k := c.index(s.Name)
		var bs bars
		e := errorPoints{}
		for _, pt := range s.Points {
			middle := pt.X + width*(float64(i)-(n-1)/2)
			b := bar{
				left: middle - width*0.46, right: middle + width*0.46, to: pt.Y,
				outline: draw.LineStyle{Color: colour(k), Width: 1.2}, fill: colour(k),
			}
			if pt.Distinguishable != nil && !*pt.Distinguishable {
				b.fill = faint(colour(k), 0x26)
			}
			bs = append(bs, b)
			e.XYs = append(e.XYs, plotter.XY{X: middle, Y: pt.Y})
			e.YErrors = append(e.YErrors, struct{ Low, High float64 }{pt.Y - pt.Lo, pt.Hi - pt.Y})
		}
		whiskers, err := plotter.NewYErrorBars(e)
		if err != nil {
			return err
		}
		whiskers.Color, whiskers.LineStyle.Width, whiskers.CapWidth = ink, 1, 5
		pl.Add(bs, whiskers)
	}
	return nil
}

// stack piles up what is above 0 and, downwards, what is below.
func (c *chart) stack(pl *plot.Plot, p *analysis.Panel) {
	up, down := make([]float64, len(p.Labels)), make([]float64, len(p.Labels))
	var bs bars
	for _, s := range p.Series {
		k := c.index(s.Name)
		for _, pt := range s.Points {
			i := int(pt.X)
			pile := up
			if pt.Y < 0 {
				pile = down
			}
			bs = append(bs, bar{left: pt.X - 0.34, right: pt.X + 0.34, from: pile[i], to: pile[i] + pt.Y,
				fill: colour(k), outline: draw.LineStyle{Color: paper, Width: 0.8}})
			pile[i] += pt.Y
		}
	}
	pl.Add(bs)
}
