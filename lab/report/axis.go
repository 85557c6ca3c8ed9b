package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/tare-trace/tare/lab/analysis"
)

func splitWords(s string) []string { return strings.Fields(s) }

func join(line, word string) string {
	if line == "" {
		return word
	}
	return line + " " + word
}

// span is the range of an axis.
type span struct{ lo, hi float64 }

func (s *span) include(xs ...float64) {
	for _, x := range xs {
		s.lo, s.hi = min(s.lo, x), max(s.hi, x)
	}
}

// yRange is what all panels of a metric share. It holds 0, since a share of an
// axis that begins elsewhere shows nothing.
func yRange(fig *analysis.Figure, metric string) span {
	s := span{}
	for _, p := range fig.Panels {
		if p.Metric != metric {
			continue
		}
		if p.Neutral {
			s.include(-p.Floor, p.Floor)
		}
		if fig.Form == "stack" {
			lo, hi := stackRange(p)
			s.include(lo, hi)
			continue
		}
		for _, series := range p.Series {
			for _, pt := range series.Points {
				s.include(pt.Lo, pt.Hi, pt.Y)
			}
		}
	}
	if s.lo == s.hi {
		s.hi = s.lo + 1
	}
	room := (s.hi - s.lo) * 0.05
	if s.hi > 0 {
		s.hi += room
	}
	if s.lo < 0 {
		s.lo -= room
	}
	return s
}

func stackRange(p analysis.Panel) (lo, hi float64) {
	for i := range p.Labels {
		down, up := 0.0, 0.0
		for _, s := range p.Series {
			for _, pt := range s.Points {
				if int(pt.X) != i {
					continue
				}
				down, up = down+min(pt.Y, 0), up+max(pt.Y, 0)
			}
		}
		lo, hi = min(lo, down), max(hi, up)
	}
	return lo, hi
}

// yTicks are about five round numbers.
type yTicks struct{ percent bool }

// Ticks implements plot.Ticker.
func (y yTicks) Ticks(lo, hi float64) []plot.Tick {
	step := niceStep((hi - lo) / 5)
	var ticks []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi+step*1e-9; i++ {
		v := i * step
		ticks = append(ticks, plot.Tick{Value: v, Label: y.write(v, step)})
	}
	return ticks
}

func (y yTicks) write(v, step float64) string {
	if !y.percent {
		return plain(v, step)
	}
	s := plain(100*v, 100*step) + "%"
	if v > step/2 {
		s = "+" + s
	}
	return s
}

// plain writes a tick with the decimals of its step and a real minus sign.
func plain(v, step float64) string {
	d := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	if math.Abs(v) < step/2 {
		v = 0
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', min(d, 9), 64), "-", "−", 1)
}

// niceStep is the next 1, 2 or 5 times a power of ten.
func niceStep(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if x <= f*unit*(1+1e-9) {
			return f * unit
		}
	}
	return 10 * unit
}

// fixedTicks are at the values that there are; labels that would touch another
// are left out.
type fixedTicks []plot.Tick

// Ticks implements plot.Ticker.
func (f fixedTicks) Ticks(_, _ float64) []plot.Tick { return f }

// xTicks labels the values on an axis of numbers. The greatest always has its
// label, the others where there is room; width is about that of the axis.
func xTicks(values []float64, kind string, scale plot.Normalizer, width vg.Length) fixedTicks {
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 0 {
		return nil
	}
	lo, hi := values[0], values[len(values)-1]
	sty := lettering(11, ink, false)
	var ticks fixedTicks
	left := vg.Length(math.Inf(1))
	for _, v := range slices.Backward(values) {
		label := analysis.Tick(v, kind)
		at := width
		if lo < hi {
			at = width * vg.Length(scale.Normalize(lo, hi, v))
		}
		half := sty.Width(label) / 2
		t := plot.Tick{Value: v, Label: label}
		if at+half+4 > left {
			t.Label = ""
		} else {
			left = at - half
		}
		ticks = append(ticks, t)
	}
	return ticks
}
