package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// markdown is the report as GitHub shows it.
func (v *view) markdown() []byte {
	w := &writer{}
	w.heading(1, v.Title)
	w.line("%s", escape(v.Where))
	if v.Description != "" {
		w.line("%s", escape(v.Description))
	}
	w.answers(v)
	w.found(v)
	w.questions(v.Questions)
	w.figures(v.Figures)
	w.cells(v.Cells)
	w.heading(2, "Noise floor")
	w.line("In every round the baseline is run twice: what its second run differs from the first by is noise.")
	w.folded("By cell and metric", v.Controls)
	if len(v.CPU) > 0 {
		w.heading(2, "Where the CPU time goes")
		w.line("From CPU profiles, taken in runs of their own, as a profiler costs something itself.")
		for _, c := range v.CPU {
			w.heading(3, c.Caption)
			w.table(c.Table)
			w.folded("By package", c.Folded)
		}
	}
	w.section("Kernel programs", v.Programs)
	w.section("Traces against the ground truth", v.Fidelity)
	if len(v.Planted) > 0 {
		w.heading(2, "What was planted, and what was stored")
		w.line("Over the requests that have a trace, in all runs that count.")
		for _, c := range v.Planted {
			w.heading(3, c.Caption)
			w.table(c.Table)
		}
	}
	w.section("What was lost", v.Lost)
	w.section("Rules, and what they excluded", v.Rules)
	w.folded(fmt.Sprintf("Excluded runs (%d)", len(v.Excluded.Rows)), v.Excluded)
	if len(v.Elsewhere.Rows) > 0 {
		w.heading(2, "What another kernel would add")
		w.line("%s", escape(v.WhyElsewhere()))
		w.table(v.Elsewhere)
	}
	if len(v.LeftOut) > 0 {
		w.heading(2, "What was left out")
		w.pairs(v.LeftOut)
	}
	w.heading(2, "How it was measured")
	w.pairs(v.Method)
	if len(v.Versions) > 0 {
		w.heading(3, "Versions")
		w.pairs(v.Versions)
	}
	w.heading(3, "Tracers")
	w.table(v.Tracers)
	w.heading(3, "Workloads")
	w.table(v.Workloads)
	w.heading(3, "Metrics")
	w.table(v.Metrics)
	w.heading(2, "The laboratory’s own cost")
	w.pairs(v.Own)
	return append(bytes.TrimRight(w.b.Bytes(), "\n"), '\n')
}

// writer of Markdown; every block ends with an empty line.
type writer struct{ b bytes.Buffer }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.b, format+"\n\n", args...)
}

func (w *writer) heading(level int, text string) {
	w.line("%s %s", strings.Repeat("#", level), escape(text))
}

func (w *writer) list(items []string) {
	for _, s := range items {
		fmt.Fprintf(&w.b, "- %s\n", s)
	}
	if len(items) > 0 {
		w.b.WriteString("\n")
	}
}

func (w *writer) pairs(pairs []pair) {
	items := make([]string, len(pairs))
	for i, p := range pairs {
		items[i] = fmt.Sprintf("**%s**: %s", escape(p.Key), escape(p.Value))
	}
	w.list(items)
}

func (w *writer) table(t table) {
	if len(t.Rows) == 0 {
		return
	}
	w.cellsOf(t.Head)
	fmt.Fprintf(&w.b, "|%s\n", strings.Repeat(" --- |", len(t.Head)))
	for _, r := range t.Rows {
		w.cellsOf(r)
	}
	w.b.WriteString("\n")
}

func (w *writer) cellsOf(texts []string) {
	w.b.WriteString("|")
	for _, s := range texts {
		// An escaped break is one that was put in here, between two values.
		fmt.Fprintf(&w.b, " %s |", strings.ReplaceAll(escape(s), lineBreak, "<br>"))
	}
	w.b.WriteString("\n")
}

// lineBreak stands for a break within a cell of a table; it is no character of
// any name.
const lineBreak = "\x1e"

func (w *writer) section(title string, t table) {
	if len(t.Rows) > 0 {
		w.heading(2, title)
		w.table(t)
	}
}

func (w *writer) folded(title string, t table) {
	if len(t.Rows) == 0 {
		return
	}
	w.line("<details><summary>%s</summary>", escape(title))
	w.table(t)
	w.line("</details>")
}

// answers are the first screen: a sentence for each question, and one figure.
func (w *writer) answers(v *view) {
	if v.Smoke != "" {
		w.line("**%s**", escape(v.Smoke))
	}
	if len(v.Answers) > 0 {
		w.heading(2, "The answers")
	}
	var items []string
	for _, a := range v.Answers {
		text := fmt.Sprintf("%s ([%s](#%s))", escape(a.Ask), escape(a.ID), slug(a.ID+": "+a.Ask))
		for _, s := range a.Says {
			text += fmt.Sprintf("<br>**%s**", escape(s))
		}
		if a.Source != "" {
			text += "<br>The source: " + escape(a.Source)
		}
		items = append(items, text)
	}
	w.list(items)
	if len(items) > 0 {
		w.line("%s", ends)
	}
	if f := v.First; f != nil {
		w.line("![%s](%s)", escape(f.Title), filepath.ToSlash(f.File))
		w.line("[%s](#%s)", escape(f.ID+": "+f.Title), slug(f.ID+": "+f.Title))
	}
}

// slug is the anchor that GitHub gives to a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// found is the evidence in short, folded where there are answers before it.
func (w *writer) found(v *view) {
	folded := len(v.Answers) > 0
	w.heading(2, "What was found")
	if folded {
		w.line("<details><summary>Claim by claim, with intervals and notes</summary>")
	}
	if len(v.Found) == 0 {
		w.line("Nothing could be compared.")
	}
	var items []string
	for _, f := range v.Found {
		items = append(items, fmt.Sprintf("**%s**: %s", escape(f.Subject), escape(f.Text)))
	}
	w.list(items)
	if v.Meaning != "" {
		w.line("%s", escape(v.Meaning))
	}
	items = nil
	for _, n := range v.Notes {
		items = append(items, "Note: "+escape(n))
	}
	w.list(items)
	if folded {
		w.line("</details>")
	}
}

func (w *writer) questions(questions []question) {
	if len(questions) > 0 {
		w.heading(2, "Questions and answers")
	}
	for _, q := range questions {
		w.heading(3, q.ID+": "+q.Ask)
		if q.Source != "" {
			w.line("> The source answers: %s", escape(q.Source))
		}
		for _, c := range q.Claims {
			w.line("**%s**: %s", escape(c.Subject), escape(c.Summary))
			if c.Source != "" {
				w.line("> The source reports: %s", escape(c.Source))
			}
			var items []string
			for _, r := range c.Ranges {
				items = append(items, escape(r))
			}
			w.list(items)
			w.folded(fmt.Sprintf("Each comparison (%d)", len(c.Findings.Rows)), c.Findings)
			if len(c.Missing) > 0 {
				t := table{Head: []string{"not compared"}}
				for _, m := range c.Missing {
					t.Rows = append(t.Rows, []string{m})
				}
				w.folded(fmt.Sprintf("Not compared (%d)", len(c.Missing)), t)
			}
		}
	}
}

func (w *writer) figures(figures []figure) {
	if len(figures) > 0 {
		w.heading(2, "Figures")
	}
	for _, f := range figures {
		w.heading(3, f.ID+": "+f.Title)
		if f.Source != "" {
			w.line("> The source reports: %s", escape(f.Source))
		}
		if f.File == "" {
			w.line("Nothing to draw: %s.", escape(f.Missing))
			continue
		}
		w.line("![%s](%s)", escape(f.Title), filepath.ToSlash(f.File))
		w.line("%s", escape(f.Note))
		w.folded("The data", f.Data)
	}
}

func (w *writer) cells(cells []cell) {
	w.heading(2, "Tables")
	w.line("Each value is a median with its 95%% interval; under it the change against the baseline in the same rounds, or that it is not distinguishable from none, with the interval of the ratio (or of the difference, where a metric may be 0 without a tracer).")
	for _, c := range cells {
		w.heading(3, c.Name)
		w.line("%s", escape(c.About))
		t := table{Head: []string{"variant"}}
		for _, h := range c.Head {
			t.Head = append(t.Head, h.Name+lineBreak+h.Unit)
		}
		for _, r := range c.Rows {
			texts := []string{r.Name + lineBreak + r.About}
			for _, x := range r.Values {
				texts = append(texts, x.text())
			}
			t.Rows = append(t.Rows, texts)
		}
		w.table(t)
	}
}

func (x value) text() string {
	s := x.Middle
	if x.Interval != "" {
		s += " (" + x.Interval + ")"
	}
	if x.N != "" {
		s += lineBreak + x.N
	}
	if x.Effect != "" {
		s += lineBreak + x.Effect
		if x.Range != "" {
			s += " (" + x.Range + ")"
		}
	}
	return s
}

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
