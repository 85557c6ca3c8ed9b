package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette is Okabe and Ito's, which people with any common colour blindness can
// tell apart, in an order that puts the strong contrasts first; its yellow is
// left out, as it is not seen on white. Stacked bars have more categories than
// that: three muted ones of Tol's follow.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xB2, 0xFF}, // blue
	{0xD5, 0x5E, 0x00, 0xFF}, // vermilion
	{0x00, 0x9E, 0x73, 0xFF}, // green
	{0xCC, 0x79, 0xA7, 0xFF}, // purple
	{0xE6, 0x9F, 0x00, 0xFF}, // orange
	{0x56, 0xB4, 0xE9, 0xFF}, // sky
	{0x44, 0x44, 0x44, 0xFF}, // nearly black
	{0x88, 0x22, 0x55, 0xFF}, // wine
	{0x99, 0x99, 0x33, 0xFF}, // olive
	{0xAA, 0xAA, 0xAA, 0xFF}, // grey
}

var (
	ink   = color.NRGBA{0x33, 0x33, 0x33, 0xFF}
	muted = color.NRGBA{0x66, 0x66, 0x66, 0xFF}
	grid  = color.NRGBA{0xE3, 0xE3, 0xE3, 0xFF}
	paper = color.NRGBA{0xFF, 0xFF, 0xFF, 0xFF}
	noise = color.NRGBA{0x80, 0x80, 0x80, 0x38}
)

// Shapes tell series apart without colour; hollow ones are not distinguishable.
var (
	filled = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
	hollow = []draw.GlyphDrawer{outlined{draw.CircleGlyph{}}, outlined{draw.BoxGlyph{}}, outlined{draw.PyramidGlyph{}}}
	dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}}
)

// outlined is a shape with paper inside; the library's own hollow ones are too
// thin to be seen.
type outlined struct{ draw.GlyphDrawer }

// DrawGlyph implements draw.GlyphDrawer.
func (o outlined) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	o.GlyphDrawer.DrawGlyph(c, sty, pt)
	sty.Color, sty.Radius = paper, sty.Radius*0.55
	c.SetColor(paper)
	o.GlyphDrawer.DrawGlyph(c, sty, pt)
}

func colour(series int) color.NRGBA { return palette[series%len(palette)] }

func faint(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// lettering is the style of text: the SVG names a generic family after the one
// whose widths were used.
func lettering(size vg.Length, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 2 // golang.org/x/image/font.WeightBold
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

// wrap breaks text at spaces so that no line is wider, if words allow it.
func wrap(sty text.Style, s string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range splitWords(s) {
		if next := join(line, word); line == "" || sty.Width(next) <= width {
			line = next
			continue
		}
		lines = append(lines, line)
		line = word
	}
	return append(lines, line)
}
