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
	"github.com/tare-trace/tare/span/text"
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
		printTrace(&out, traces[id])
	}
	_, err := io.WriteString(w, out.String())
	return err
}

type treeRow struct{ label, operation, duration, self string }

func printTrace(out *strings.Builder, spans []*Span) {
	slices.SortStableFunc(spans, func(a, b *Span) int { return cmp.Compare(a.Start, b.Start) })
	nodes := make([]Node, len(spans))
	resources := map[*Resource]int{}
	last := uint64(0)
	for i, s := range spans {
		if _, ok := resources[s.Resource]; !ok {
			resources[s.Resource] = len(resources)
		}
		nodes[i] = Node{ID: s.ID, Parent: s.Parent, Start: s.Start, End: s.Start + s.Duration(), Kind: s.Kind, Resource: resources[s.Resource]}
		last = max(last, nodes[i].End)
	}
	noun := "spans"
	if len(spans) == 1 {
		noun = "span"
	}
	fmt.Fprintf(out, "trace %s  %d %s  %s\n", spans[0].TraceID, len(spans), noun, nanos(last-spans[0].Start))

	t := NewTree(nodes)
	rows := []treeRow{{"SERVICE", "OPERATION", "DURATION", "SELF"}}
	for _, i := range t.Order {
		if t.Above[i] < 0 {
			rows = t.rows(rows, spans, i, "", "")
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

// rows adds the rows of a span and of those below it; lead stands before its
// label, indent before the labels of its children.
func (t *Tree) rows(rows []treeRow, spans []*Span, i int32, lead, indent string) []treeRow {
	s := spans[i]
	rows = append(rows, treeRow{
		label:     lead + s.service(),
		operation: s.operation(lead == ""),
		duration:  nanos(s.Duration()),
		self:      nanos(t.Self(i)),
	})
	var below []int32
	for _, c := range t.Children(i) {
		if t.Above[c] == i {
			below = append(below, c)
		}
	}
	for n, c := range below {
		lead, next := indent+"├─ ", indent+"│  "
		if n == len(below)-1 {
			lead, next = indent+"└─ ", indent+"   "
		}
		rows = t.rows(rows, spans, c, lead, next)
	}
	return rows
}

func (s *Span) service() string {
	if s.Resource == nil || s.Resource.Service == "" {
		return "(unknown)"
	}
	return text.Visible(s.Resource.Service)
}

// operation is the kind and the name; top spans say that they miss a parent.
func (s *Span) operation(top bool) string {
	out := s.Kind.String() + " " + s.Name
	var target semconv.Target
	for _, a := range s.Attrs {
		target.Take(a.Key, a.Str)
	}
	if beside := target.Beside(s.Name); beside != "" {
		out += " " + beside
	}
	if s.Status == Error {
		out += " (error)"
	}
	if top && !s.Parent.IsZero() {
		out += " (parent missing)"
	}
	return text.Visible(out)
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
