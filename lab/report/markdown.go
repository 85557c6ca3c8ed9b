package report

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
)

const (
	// maxFigure bounds the figure of the short page, in bytes. A figure that needs more has a
	// dozen plots or hundreds of bars, which nobody reads on a page that GitHub shows.
	maxFigure = 20 << 10
	// maxLines bounds the short page. Of these, otherLines are neither a question, nor a row, nor an item of how
	// it was measured. A terminal has maxRows rows.
	maxLines, otherLines, maxRows = 60, 18, 40
	// maxNotes and maxNote, in characters, bound the notes.
	maxNotes, maxNote = 4, 240
)

// short is the page for those who come by, as GitHub shows it: the answers, one figure, and how
// it was measured. It has 60 lines at most, if there are no more than 30 questions, and nothing that
// depends on where the directory is. The result are its files by name.
func (v *view) short(m *record.Manifest, s *analysis.Summary) (map[string][]byte, error) {
	files := map[string][]byte{}
	w := &writer{}
	w.line("# %s", escape(v.Title))
	w.line("%s", escape(v.Where))
	if v.Description != "" {
		w.line("%s", escape(sentence(v.Description)))
	}
	if v.Smoke != "" {
		w.line("**%s**", escape(v.Smoke))
	}
	measured := v.measured(m, s)
	w.answers(v, s, maxLines-otherLines-2*min(1, len(v.Smoke))-len(v.Questions)-len(measured))
	f, svg, err := v.shown()
	if err != nil {
		return nil, err
	}
	if f != nil {
		name := path.Join("figures", f.Anchor+".svg")
		files[name] = svg
		w.line("![%s](%s)", escape(f.ID+": "+f.Title), name)
	}
	w.line("## How it was measured")
	w.list(measured)
	w.line("All tables and figures: `tare bench report DIR`, where DIR is this directory, writes them to `%s`.", pageFile)
	files[shortFile] = append(bytes.TrimRight(w.b.Bytes(), "\n"), '\n')
	return files, nil
}

// shown is the figure of the first screen or, where that is too large, the first one that is not.
func (v *view) shown() (*figure, []byte, error) {
	if v.First == nil {
		return nil, nil, nil
	}
	candidates := []*figure{v.First}
	for i := range v.Figures {
		if f := &v.Figures[i]; f.chart != nil && f != v.First {
			candidates = append(candidates, f)
		}
	}
	for _, f := range candidates {
		svg, err := f.chart.file()
		if err != nil || len(svg) <= maxFigure {
			return f, svg, err
		}
	}
	return nil, nil, nil
}

// writer of Markdown; every block ends with an empty line.
type writer struct{ b bytes.Buffer }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.b, format+"\n\n", args...)
}

func (w *writer) list(items []string) {
	for _, s := range items {
		fmt.Fprintf(&w.b, "- %s\n", s)
	}
	if len(items) > 0 {
		w.b.WriteString("\n")
	}
}

// answers are a line for each question, and the rows that it rests on.
func (w *writer) answers(v *view, s *analysis.Summary, limit int) {
	var items []string
	for _, q := range v.Questions {
		items = append(items, fmt.Sprintf("**%s: %s** %s", escape(q.ID), escape(q.Ask), escape(q.Answer)))
	}
	w.list(items)
	rows, left := shortRows(s, limit)
	if len(rows) == 0 {
		return
	}
	w.b.WriteString(analysis.MarkdownTable(shortHead, rows, escape))
	text := strings.Join(analysis.Footnotes, " ")
	if left > 0 {
		text += fmt.Sprintf(" `%s` has %d more rows.", pageFile, left)
	}
	w.b.WriteString("\n")
	w.line("%s", text)
}

// shortHead names the columns of shortRows.
var shortHead = append([]string{"question"}, analysis.Head...)

// shortRows are rows of the claims that the report begins with, no more than limit: all of them or, if these are
// too many, the least and the greatest of each claim, the greatest alone, or that of the first claims of each
// question. left counts the rows that are not among them.
func shortRows(s *analysis.Summary, limit int) (rows [][]string, left int) {
	all := 0
	for _, a := range s.Answers {
		for _, c := range a.Claims {
			all += len(c.Findings)
		}
	}
	for _, most := range []struct{ ofClaim, claims int }{{all, all}, {2, all}, {1, all}, {1, 3}, {1, 2}, {1, 1}} {
		rows = nil
		for i := range s.Answers {
			rows = append(rows, rowsOf(&s.Answers[i], most.ofClaim, most.claims)...)
		}
		if len(rows) <= limit {
			break
		}
	}
	rows = rows[:min(len(rows), max(limit, 0))]
	return rows, all - len(rows)
}

// rowsOf are the rows of a question's first claims.
func rowsOf(a *analysis.Answer, ofClaim, claims int) [][]string {
	var rows [][]string
	for _, c := range a.Claims {
		if !c.First || len(c.Findings) == 0 || claims == 0 {
			continue
		}
		claims--
		least, greatest := c.Extremes()
		for i, r := range c.Rows() {
			if len(c.Findings) <= ofClaim || i == greatest || i == least && ofClaim > 1 {
				rows = append(rows, append([]string{a.ID}, r.Texts()...))
			}
		}
	}
	return rows
}

// measured says in a few lines what the numbers rest on.
func (v *view) measured(m *record.Manifest, s *analysis.Summary) []string {
	var items []string
	for _, key := range []string{"rounds", "windows", "runs", "tare"} {
		if i := slices.IndexFunc(v.Method, func(p pair) bool { return p.Key == key }); i >= 0 {
			items = append(items, fmt.Sprintf("%s: %s", key, escape(v.Method[i].Value)))
		}
	}
	if floors := noiseFloors(m, s); floors != "" {
		items = append(items, "noise floor, the greatest of all cells: "+escape(floors))
	}
	var without []string
	for _, p := range v.LeftOut {
		without = append(without, p.Key)
	}
	for _, r := range v.Elsewhere.Rows {
		without = append(without, r[0])
	}
	if len(without) > 0 {
		items = append(items, fmt.Sprintf("left out: %s (`%s` says why)", escape(strings.Join(without, ", ")), pageFile))
	}
	for _, n := range v.Notes[:min(len(v.Notes), maxNotes)] {
		items = append(items, "note: "+escape(clip(n)))
	}
	return items
}

// clip ends a text that lists dozens of names.
func clip(text string) string {
	if r := []rune(text); len(r) > maxNote {
		return string(r[:maxNote]) + " …"
	}
	return text
}

// noiseFloors are what the baseline differs from itself by, of the metrics that questions are about.
func noiseFloors(m *record.Manifest, s *analysis.Summary) string {
	var texts, seen []string
	for _, q := range m.Experiment.Questions {
		for _, c := range q.Claims {
			metric, ok := record.MetricOf(c.Metric)
			if !ok || metric.Worse == 0 || slices.Contains(seen, c.Metric) {
				continue
			}
			seen = append(seen, c.Metric)
			greatest := map[analysis.As]float64{}
			for _, cell := range s.Cells {
				for _, k := range cell.Control {
					if k.Metric == c.Metric {
						greatest[k.As] = max(greatest[k.As], k.Floor)
					}
				}
			}
			for _, as := range []analysis.As{analysis.Ratio, analysis.Difference} {
				if floor, ok := greatest[as]; ok {
					texts = append(texts, metric.Name+" "+analysis.FloorText(floor, as, metric))
				}
			}
		}
	}
	return strings.Join(texts, ", ")
}

// sentence is the first one of a text.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if end := firstSentence.FindStringIndex(text); end != nil {
		return text[:end[0]+1]
	}
	return text
}

var firstSentence = regexp.MustCompile(`[.?!] [A-Z0-9]`)

// special are the signs that Markdown or HTML would take for its own.
var special = regexp.MustCompile("[\\\\`*_\\[\\]<>|#~]")

// escape keeps text what it is.
func escape(s string) string {
	return special.ReplaceAllStringFunc(strings.Join(strings.Fields(s), " "), func(c string) string {
		switch c {
		case "<":
			return "&lt;"
		case ">":
			return "&gt;"
		}
		return `\` + c
	})
}
