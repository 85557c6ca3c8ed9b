package span

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tare-trace/tare/span/semconv"
)

// WriteTree prints every trace among the spans as a tree, in the order of
// their first appearance: service, kind and operation, duration and self time.
// Self time is what the spans directly below do not cover. A span whose parent
// is not among the spans is printed at the top, and says so.
func WriteTree(w io.Writer, spans []Span) error {
	traces := map[TraceID][]*Span{}
	var order []TraceID
	for i := range spans {
		s := &spans[i]
		if traces[s.TraceID] == nil {
			order = append(order, s.TraceID)
		}
		traces[s.TraceID] = append(traces[s.TraceID], s)
	}
	var out strings.Builder
	for i, id := range order {
		if i > 0 {
			out.WriteByte('\n')
		}
		newTree(traces[id]).print(&out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// tree is one trace.
type tree struct {
	spans    []*Span
	tops     []*Span
	children map[ID][]*Span
}

func newTree(spans []*Span) *tree {
	t := &tree{spans: spans, children: map[ID][]*Span{}}
	ids := map[ID]bool{}
	for _, s := range spans {
		ids[s.ID] = true
	}
	slices.SortStableFunc(spans, func(a, b *Span) int { return cmp.Compare(a.Start, b.Start) })
	for _, s := range spans {
		if s.Parent.IsZero() || !ids[s.Parent] {
			t.tops = append(t.tops, s)
		} else {
			t.children[s.Parent] = append(t.children[s.Parent], s)
		}
	}
	return t
}

type treeRow struct{ label, operation, duration, self string }

func (t *tree) print(out *strings.Builder) {
	first, last := t.spans[0].Start, uint64(0)
	for _, s := range t.spans {
		last = max(last, s.End)
	}
	noun := "spans"
	if len(t.spans) == 1 {
		noun = "span"
	}
	fmt.Fprintf(out, "trace %s  %d %s  %s\n", t.spans[0].TraceID, len(t.spans), noun, nanos(last-min(first, last)))

	rows := []treeRow{{"SERVICE", "OPERATION", "DURATION", "SELF"}}
	seen := map[*Span]bool{}
	for _, s := range t.tops {
		rows = t.walk(rows, seen, s, "", "")
	}
	// Spans that are each other's ancestors hang below no top.
	for _, s := range t.spans {
		if !seen[s] {
			rows = t.walk(rows, seen, s, "", "")
		}
	}
	var widths [4]int
	for _, r := range rows {
		for i, cell := range []string{r.label, r.operation, r.duration, r.self} {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		fmt.Fprintf(out, "%-*s  %-*s  %*s  %*s\n",
			widths[0], r.label, widths[1], r.operation, widths[2], r.duration, widths[3], r.self)
	}
}

// walk adds the rows of a span and of those below it; lead stands before its
// label, indent before the labels of its children.
func (t *tree) walk(rows []treeRow, seen map[*Span]bool, s *Span, lead, indent string) []treeRow {
	seen[s] = true
	rows = append(rows, treeRow{
		label:     lead + s.service(),
		operation: s.operation(lead == ""),
		duration:  nanos(s.Duration()),
		self:      nanos(s.selfTime(t.children[s.ID])),
	})
	var below []*Span
	for _, c := range t.children[s.ID] {
		if !seen[c] { // it may be its own ancestor, or have its parent's id twice
			seen[c] = true
			below = append(below, c)
		}
	}
	for i, c := range below {
		lead, next := indent+"├─ ", indent+"│  "
		if i == len(below)-1 {
			lead, next = indent+"└─ ", indent+"   "
		}
		rows = t.walk(rows, seen, c, lead, next)
	}
	return rows
}

func (s *Span) service() string {
	if s.Resource == nil || s.Resource.Service == "" {
		return "(unknown)"
	}
	return s.Resource.Service
}

// operation is the kind and the name; top spans say that they miss a parent.
func (s *Span) operation(top bool) string {
	text := s.Kind.String() + " " + s.Name
	var target semconv.Target
	for _, a := range s.Attrs {
		target.Take(a.Key, a.Str)
	}
	if beside := target.Beside(s.Name); beside != "" {
		text += " " + beside
	}
	if s.Status == Error {
		text += " (error)"
	}
	if top && !s.Parent.IsZero() {
		text += " (parent missing)"
	}
	return strings.Map(printable, text)
}

// printable keeps payload bytes from writing on a terminal.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '.'
	}
	return r
}

// selfTime is the duration less the union of the children's times, as far as
// they are within it; the children are sorted by start.
func (s *Span) selfTime(children []*Span) uint64 {
	var covered uint64
	at := s.Start
	for _, c := range children {
		from, to := max(c.Start, at), min(c.End, s.End)
		if to > from {
			covered += to - from
			at = to
		}
	}
	return s.Duration() - covered
}

// nanos prints with four digits or so, in a unit that suits.
func nanos(n uint64) string {
	const us, ms = uint64(time.Microsecond), uint64(time.Millisecond)
	switch f := float64(n); {
	case n < ms:
		return fmt.Sprintf("%.1f µs", f/float64(us))
	case n < 1000*ms:
		return fmt.Sprintf("%.3f ms", f/float64(ms))
	default:
		return fmt.Sprintf("%.3f s", f/float64(time.Second))
	}
}
