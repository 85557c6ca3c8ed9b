package report

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// view is the report as text, in the order in which the page for a browser has it. The short
// page takes of it what it has room for.
type view struct {
	Title, Description string
	Where              string // machine, kernel, when
	Smoke              string // that nothing rests on enough rounds
	First              *figure
	Questions          []question
	Footnotes          []string // of the rows
	Figures            []figure
	Cells              []cell
	Controls           table
	Fidelity           table
	Planted            []captioned
	CPU                []captioned
	Programs           table
	Rules              table
	Excluded           table
	LeftOut            []pair
	Elsewhere          table // tracers that need another kernel
	Kernel             string
	Lost               table
	Notes              []string
	Method             []pair
	Tracers            table
	Workloads          table
	Versions           []pair
	Own                []pair
	Metrics            table
	Hollow             string // what a hollow mark means
}

type pair struct{ Key, Value string }

// table of texts; the first column names the row.
type table struct {
	Head []string
	Rows [][]string
}

type captioned struct {
	Caption string
	Table   table
	Folded  table // by package, of a CPU profile
}

// question with the sentence that answers it, and the rows of each of its claims.
type question struct {
	ID, Anchor, Ask, Source, Answer string
	Claims                          []claim
}

type claim struct {
	Subject, Source string
	Missing         []string
	Findings        table
	Folded          bool // many rows
}

type figure struct {
	ID, Anchor, Title, Source, Missing, Note string
	Panels                                   []panel
	Legend                                   []legendEntry
	Data                                     table
	Wide                                     bool   // each panel needs the whole width
	chart                                    *chart // nil: nothing to draw
}

type panel struct {
	Title, YLabel string
	SVG           template.HTML
}

type legendEntry struct {
	Name  string
	Class string
}

// cell is the main table of a cell.
type cell struct {
	Name, Anchor, About string
	Head                []column
	Rows                []row
	Open                bool
}

type column struct{ Name, Unit, About string }

type row struct {
	Name, About string
	Control     bool
	Values      []value
}

// value of a metric and its effect; both carry their interval.
type value struct {
	Middle, Interval string
	Effect, Range    string
	Class            string // worse, better, same, few
	N                string // where it is not that of the row
}

func newView(m *record.Manifest, s *analysis.Summary) *view {
	v := &view{Title: s.Title, Description: m.Experiment.Description, Where: where(m), Smoke: s.Smoke, Notes: s.Notes}
	if v.Title == "" {
		v.Title = s.Experiment
	}
	base := m.Experiment.Tracers[0].Title
	if base == "" {
		base = s.Baseline
	}
	v.Hollow = "Error bars are 95% intervals. Hollow or pale: not distinguishable from " + base +
		". Grey: the noise floor, the greatest of the cells shown."
	for _, note := range analysis.Footnotes {
		v.Footnotes = append(v.Footnotes, strings.ReplaceAll(note, "*", ""))
	}
	v.questions(s)
	v.figures(s)
	v.cells(m, s)
	v.controls(m, s)
	v.costs(s)
	v.planted(s)
	v.rules(s)
	v.method(m, s)
	return v
}

// where the numbers come from, in a line.
func where(m *record.Manifest) string {
	parts := []string{}
	if m.Machine.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d CPUs", m.Machine.CPUs))
	}
	for _, p := range []string{m.Machine.Model, m.Machine.Virtual} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if m.Machine.Kernel != "" {
		parts = append(parts, "Linux "+m.Machine.Kernel)
	}
	if !m.Begin.IsZero() {
		parts = append(parts, m.Begin.UTC().Format("2006-01-02"))
	}
	if m.Profile != "" {
		parts = append(parts, "profile "+m.Profile)
	}
	return strings.Join(parts, ", ")
}

// estimate writes a value with its interval and n.
func estimate(e stats.Estimate, unit string) string {
	if e.N == 0 {
		return "none (n=0)"
	}
	middle, interval := analysis.Number(e)
	return fmt.Sprintf("%s%s (%s, n=%d)", middle, unit, interval, e.N)
}

func (v *view) questions(s *analysis.Summary) {
	const unfolded = 12
	for _, a := range s.Answers {
		q := question{ID: a.ID, Anchor: anchor("question-", a.ID), Ask: a.Ask, Source: a.Source, Answer: a.Sentence()}
		for _, c := range a.Claims {
			cl := claim{Subject: c.Subject, Source: c.Source, Missing: c.Missing, Findings: table{Head: analysis.Head}, Folded: len(c.Findings) > unfolded}
			for _, r := range c.Rows() {
				cl.Findings.Rows = append(cl.Findings.Rows, r.Texts())
			}
			q.Claims = append(q.Claims, cl)
		}
		v.Questions = append(v.Questions, q)
	}
}

// anchor makes an id of a heading.
func anchor(prefix, name string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return b.String()
}

func (v *view) figures(s *analysis.Summary) {
	taken := map[string]bool{}
	for i := range s.Figures {
		f := &s.Figures[i]
		fig := figure{ID: f.ID, Anchor: anchor("figure-", f.ID), Title: f.Title, Source: f.Source, Missing: f.Missing, Note: v.Hollow}
		for n := 2; taken[fig.Anchor]; n++ { // two figures may have one id
			fig.Anchor = anchor("figure-", f.ID) + "-" + strconv.Itoa(n)
		}
		taken[fig.Anchor] = true
		if len(f.Panels) > 0 {
			fig.plan(f)
		}
		v.Figures = append(v.Figures, fig)
	}
	// A wide figure is not for the first screen, if there is another.
	for i := range v.Figures {
		f := &v.Figures[i]
		if f.chart != nil && (v.First == nil || v.First.Wide && !f.Wide) {
			v.First = f
		}
	}
}

// plan does all for a figure but draw it, which takes most of the time that a report takes.
func (fig *figure) plan(f *analysis.Figure) {
	c := newChart(f)
	switch {
	case f.X == "time":
		fig.Note = "One run of each variant, the first that counts; those of the other rounds are in the records."
	case f.Form == "stack":
		fig.Note = "Medians of the profiled runs, one on another; their intervals are in the data."
	}
	if len(c.series) > 1 {
		for i, name := range c.series {
			fig.Legend = append(fig.Legend, legendEntry{Name: name, Class: "s" + strconv.Itoa(i%len(palette))})
		}
	}
	fig.chart, fig.Wide, fig.Data = c, c.wide, dataOf(f)
}

// draw draws the panels for the page.
func (fig *figure) draw() error {
	if fig.chart == nil {
		return nil
	}
	for i, p := range fig.chart.fig.Panels {
		svg, err := fig.chart.inline(i)
		if err != nil {
			return err
		}
		//nolint:gosec // drawn here, with all text escaped by the SVG library
		fig.Panels = append(fig.Panels, panel{Title: p.Title, YLabel: p.YLabel, SVG: template.HTML(svg)})
	}
	return nil
}

// dataOf is the figure as a table, for those who do not see it or want to count.
func dataOf(f *analysis.Figure) table {
	t := table{Head: []string{"plot", "series", f.X, "median", "95% interval", "n", "distinguishable"}}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			for _, pt := range s.Points {
				x := "every"
				switch {
				case s.Flat:
				case len(p.Labels) > 0:
					x = p.Labels[int(pt.X)]
				default:
					x = analysis.Tick(pt.X, f.X)
				}
				scale, unit, width := 1.0, "", ""
				if p.Percent {
					scale, unit = 100, "%"
				}
				if pt.N > 1 {
					width = unit
				}
				middle, interval := analysis.Number(stats.Estimate{Median: scale * pt.Y, Lo: scale * pt.Lo, Hi: scale * pt.Hi, N: pt.N})
				verdict := "–"
				if pt.Distinguishable != nil {
					verdict = map[bool]string{true: "yes", false: "no"}[*pt.Distinguishable]
				}
				t.Rows = append(t.Rows, []string{p.Title, s.Name, x, middle + unit, interval + width, strconv.Itoa(pt.N), verdict})
			}
		}
	}
	return t
}

// sortedPairs of a map.
func sortedPairs(m map[string]string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{k, m[k]})
	}
	return out
}
