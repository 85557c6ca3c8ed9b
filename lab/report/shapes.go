package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// band is a horizontal strip over the whole width: a noise floor, or the interval
// of what holds for every x.
type band struct {
	lo, hi float64
	fill   color.Color
}

// Plot implements plot.Plotter.
func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	lo, hi := y(b.lo), y(b.hi)
	c.FillPolygon(b.fill, c.ClipPolygonXY([]vg.Point{
		{X: c.Min.X, Y: lo}, {X: c.Max.X, Y: lo}, {X: c.Max.X, Y: hi}, {X: c.Min.X, Y: hi},
	}))
}

// level is a horizontal line over the whole width.
type level struct {
	y     float64
	style draw.LineStyle
}

// Plot implements plot.Plotter.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	c.StrokeLine2(l.style, c.Min.X, y(l.y), c.Max.X, y(l.y))
}

// bar is an upright rectangle between two values, in units of the axis of labels.
type bar struct {
	left, right, from, to float64
	fill                  color.Color // nil: hollow
	outline               draw.LineStyle
}

// bars of a panel.
type bars []bar

// Plot implements plot.Plotter.
func (bs bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, b := range bs {
		corners := []vg.Point{
			{X: x(b.left), Y: y(b.from)}, {X: x(b.left), Y: y(b.to)},
			{X: x(b.right), Y: y(b.to)}, {X: x(b.right), Y: y(b.from)},
		}
		if b.fill != nil {
			c.FillPolygon(b.fill, corners)
		}
		if b.outline.Width > 0 {
			c.StrokeLines(b.outline, append(corners, corners[0]))
		}
	}
}
