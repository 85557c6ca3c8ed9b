package report

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tare-trace/tare/lab/analysis"
)

const (
	columnsInFile = 3
	gap           = vg.Length(18)
)

// family names the fonts of the plots' text, once for all of it: the one whose widths were used where
// it is installed, then those of the same widths, then any.
const family = ` font-family="'Liberation Sans',Arial,Helvetica,sans-serif"`

var (
	// usual is what the library says of each text, and what holds without it: it is half of a figure.
	usual   = regexp.MustCompile(`font-family:[^;"]*;?|font-(variant|weight|style):normal;?`)
	svgHead = regexp.MustCompile(`(?s)^.*?<svg [^>]*>`)
)

// inline draws one panel as an element of the page, without a title, which the
// page has as text.
func (c *chart) inline(i int) (string, error) {
	p := &c.fig.Panels[i]
	canvas := vgsvg.New(c.width, c.height)
	if err := c.draw(draw.New(canvas), p); err != nil {
		return "", err
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g"`+family+` role="img" aria-label="%s">`,
		float64(c.width), float64(c.height), html.EscapeString(p.Title+": "+p.YLabel))
	return emit(canvas, head)
}

// file draws the whole figure, with titles and a legend.
func (c *chart) file() ([]byte, error) {
	n := len(c.fig.Panels)
	cols := min(n, columnsInFile)
	if c.wide {
		cols = 1
	}
	rows := (n + cols - 1) / cols
	width := c.width*vg.Length(cols) + gap*vg.Length(cols+1)
	title := lettering(13, ink, true)
	heads := make([][]string, n)
	headLines := 0
	for i, p := range c.fig.Panels {
		heads[i] = wrap(title, p.Title, c.width-12)
		headLines = max(headLines, len(heads[i]))
	}
	headHeight := vg.Length(headLines)*16 + 18
	entries := c.legend(width - 2*gap)
	legendHeight := vg.Length(len(entries)) * 18
	tile := headHeight + c.height + gap
	height := gap + legendHeight + tile*vg.Length(rows)

	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	all.FillPolygon(paper, []vg.Point{all.Min, {X: all.Max.X, Y: all.Min.Y}, all.Max, {X: all.Min.X, Y: all.Max.Y}})
	c.drawLegend(all, entries)
	for i := range c.fig.Panels {
		p := &c.fig.Panels[i]
		left := gap + (c.width+gap)*vg.Length(i%cols)
		top := height - gap - legendHeight - tile*vg.Length(i/cols)
		for j, line := range heads[i] {
			all.FillText(title, vg.Point{X: left, Y: top - 14 - vg.Length(j)*16}, line)
		}
		if p.YLabel != p.Title {
			all.FillText(lettering(11, muted, false), vg.Point{X: left, Y: top - headHeight + 6}, p.YLabel)
		}
		area := draw.Canvas{Canvas: canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left, Y: top - headHeight - c.height},
			Max: vg.Point{X: left + c.width, Y: top - headHeight},
		}}
		if err := c.draw(area, p); err != nil {
			return nil, err
		}
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g"`+family+` role="img"><title>%s</title>`,
		float64(width), float64(height), html.EscapeString(c.fig.Title))
	s, err := emit(canvas, head)
	return []byte(s), err
}

func (c *chart) draw(area draw.Canvas, p *analysis.Panel) error {
	pl, err := c.panel(p)
	if err != nil {
		return err
	}
	pl.Draw(draw.Crop(area, 2, -8, 2, -6))
	return nil
}

// emit replaces the head that the library writes, which has a fixed size in
// points and no fonts, and takes out the fonts of each text, which lack a generic one.
func emit(canvas *vgsvg.Canvas, head string) (string, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	s := svgHead.ReplaceAllLiteralString(b.String(), head)
	s = strings.ReplaceAll(s, ")\"\n\tstyle=", ")\" style=")
	return strings.TrimSpace(usual.ReplaceAllLiteralString(s, "")), nil
}

// entry of a legend.
type entry struct {
	series int
	name   string
	at     vg.Length
}

const swatch = vg.Length(22)

// legend breaks the names of the series into lines.
func (c *chart) legend(width vg.Length) [][]entry {
	if len(c.series) < 2 {
		return nil
	}
	sty := lettering(12, ink, false)
	var lines [][]entry
	var line []entry
	x := vg.Length(0)
	for i, name := range c.series {
		w := swatch + sty.Width(name) + 16
		if len(line) > 0 && x+w > width {
			lines, line, x = append(lines, line), nil, 0
		}
		line = append(line, entry{i, name, x})
		x += w
	}
	return append(lines, line)
}

func (c *chart) drawLegend(all draw.Canvas, lines [][]entry) {
	sty := lettering(12, ink, false)
	sty.YAlign = text.YCenter
	for i, line := range lines {
		y := all.Max.Y - gap - vg.Length(i)*18
		for _, e := range line {
			x := gap + e.at
			if c.fig.Form == "line" {
				all.StrokeLine2(draw.LineStyle{Color: colour(e.series), Width: 1.5, Dashes: dashes[e.series%len(dashes)]}, x, y, x+swatch-6, y)
				all.DrawGlyph(draw.GlyphStyle{Color: colour(e.series), Radius: 3.4, Shape: filled[e.series%len(filled)]}, vg.Point{X: x + (swatch-6)/2, Y: y})
			} else {
				all.FillPolygon(colour(e.series), []vg.Point{{X: x + 4, Y: y - 5}, {X: x + 14, Y: y - 5}, {X: x + 14, Y: y + 5}, {X: x + 4, Y: y + 5}})
			}
			all.FillText(sty, vg.Point{X: x + swatch, Y: y}, e.name)
		}
	}
}
