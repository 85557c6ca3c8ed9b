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
	// maxListed bounds what the short page lists where an experiment asks no questions.
	maxListed = 20
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
	w.answers(v)
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
	w.list(v.measured(m, s))
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

// answers are a line for each question or, where none is asked, for what was found.
func (w *writer) answers(v *view) {
	var items []string
	if len(v.Answers) == 0 {
		w.line("## What was found")
		for _, f := range v.Found[:min(len(v.Found), maxListed)] {
			items = append(items, fmt.Sprintf("**%s**: %s", escape(f.Subject), escape(f.Text)))
		}
		switch more := len(v.Found) - maxListed; {
		case len(v.Found) == 0:
			items = append(items, "Nothing could be compared.")
		case more > 0:
			items = append(items, fmt.Sprintf("%d more, in `%s`", more, pageFile))
		}
		w.list(items)
		if v.Meaning != "" {
			w.line("%s", escape(v.Meaning))
		}
		return
	}
	w.line("## The answers")
	for _, a := range v.Answers {
		text := fmt.Sprintf("**%s: %s** %s", escape(a.ID), escape(a.Ask), escape(strings.Join(a.Says, " ")))
		if a.Source != "" {
			text += " Source: " + escape(a.Source)
		}
		items = append(items, text)
	}
	w.list(items)
	w.line("%sin `%s`.", ends, pageFile)
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
