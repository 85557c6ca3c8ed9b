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
	Answers            []answer
	First              *figure
	Found              []finding
	Meaning            string // of "distinguishable", where it is said
	Questions          []question
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

// answer to a question in plain sentences, for the first screen.
type answer struct {
	ID, Anchor, Ask, Source string
	Says                    []string
}

// ends explains the numbers of the answers.
const ends = "From the lower end of the lowest 95% interval to the upper end of the highest, of the comparisons that can be told from noise or, where none or no more than chance makes can, of all; the interval of each comparison is "

// Ends is ends, for the page.
func (*view) Ends() string { return ends + "below." }

// finding is a sentence whose subject is set off.
type finding struct{ Subject, Text string }

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

type question struct {
	ID, Anchor, Ask, Source string
	Claims                  []claim
}

type claim struct {
	Subject, Source, Summary string
	Ranges, Missing          []string
	Findings                 table
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
	if explains(s) {
		v.Meaning = distinguishable
	}
	for _, f := range s.Found {
		subject, text, _ := strings.Cut(f, ": ")
		v.Found = append(v.Found, finding{subject, text})
	}
	v.questions(m, s)
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

func metricName(key string) string {
	if m, ok := record.MetricOf(key); ok {
		return m.Name
	}
	return key
}

// estimate writes a value with its interval and n.
func estimate(e stats.Estimate, unit string) string {
	if e.N == 0 {
		return "none (n=0)"
	}
	middle, interval := analysis.Number(e)
	return fmt.Sprintf("%s%s (%s, n=%d)", middle, unit, interval, e.N)
}

func (v *view) questions(m *record.Manifest, s *analysis.Summary) {
	for i, a := range s.Answers {
		q := question{ID: a.ID, Anchor: anchor("question-", a.ID), Ask: a.Ask, Source: a.Source}
		for j, c := range a.Claims {
			where := m.Experiment.Questions[i].Claims[j].Where
			metric, _ := record.MetricOf(c.Metric)
			cl := claim{
				Subject: metricName(c.Metric) + analysis.Subject(where, s.NotOffered),
				Source:  c.Source, Summary: c.Summary, Missing: c.Missing,
			}
			if c.Against != s.Baseline {
				cl.Subject += ", against " + c.Against
			}
			for _, r := range c.Ranges {
				if c.Distinguishable == 0 && c.Comparisons > 0 {
					break // each part would say once more what the whole says
				}
				cl.Ranges = append(cl.Ranges, r.Text)
			}
			cl.Findings = findingsTable(c.Findings, metric)
			q.Claims = append(q.Claims, cl)
		}
		v.Questions = append(v.Questions, q)
		v.Answers = append(v.Answers, first(a, q.Anchor))
	}
}

// first are the sentences that answer a question before anything else. What the source has to
// say is of these claims, or of the whole question.
func first(a analysis.Answer, anchor string) answer {
	out := answer{ID: a.ID, Anchor: anchor, Ask: a.Ask}
	var sources []string
	for _, c := range a.Claims {
		if !c.First {
			continue
		}
		out.Says = append(out.Says, c.Short)
		if c.Source != "" && !slices.Contains(sources, c.Source) {
			sources = append(sources, c.Source)
		}
	}
	if out.Source = strings.Join(sources, "; "); out.Source == "" {
		out.Source = a.Source
	}
	return out
}

func findingsTable(findings []analysis.Finding, m record.Metric) table {
	t := table{Head: []string{"cell", "variant", m.Name}}
	for _, f := range findings {
		t.Rows = append(t.Rows, []string{f.Cell, variantName(f.Tracer, f.Variant, f.Rate), f.Text})
	}
	return t
}

// variantName writes tracer@rate with a percentage.
func variantName(tracer, variant string, rate float64) string {
	if variant != tracer && strings.HasPrefix(variant, tracer+"@") {
		return tracer + " at " + analysis.RatePercent(rate)
	}
	return variant
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
