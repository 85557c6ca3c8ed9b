// Package fidelity compares the traces of a run with the ground truth: every
// request carries a number that each service of the chain repeats in its own
// messages, so every span names its request in bytes that no tracer invented.
//
// It refuses to be generous. A trace is complete only if it has each span that
// the chain must produce, exactly once, under the right parent, named, and of one
// request. Every other trace is counted under the reason why it is not.
package fidelity

import (
	"fmt"
	"slices"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/workloads"
)

// Shape is one span that every trace must have, with those below it; chains
// bring theirs with them.
type Shape = workloads.Shape

// Truth is the shape of each request's trace, by its number.
type Truth = workloads.Truth

// Classify compares the spans of a run, in any order, with the shapes that the
// requests' traces must have by the numbers that they hold. A trace without a
// number is compared with that of request 0.
func Classify(spans []span.Span, truth Truth) Report { return classify(spans, truth, false) }

// ClassifyByMethod is Classify where a gRPC call may name its method and no request, as
// if the tracer cannot decode headers that it has not seen all of. Service, kind, method
// and place in the tree are still compared, and each call must be there once; but if two
// requests swapped calls that have nothing with a number below them, both traces would be
// taken for complete. The report counts the traces for which this holds.
func ClassifyByMethod(spans []span.Span, truth Truth) Report { return classify(spans, truth, true) }

// Between leaves out the traces that are not of a request from first on: those that hold lower numbers alone, or none and
// have a span that began before the load did, or only spans that began after its end. Begin and end are Unix nanoseconds.
func Between(spans []span.Span, first, begin, end uint64) []span.Span {
	const earlier, since, within = 1, 2, 4
	holds := map[span.TraceID]int{}
	for i := range spans {
		s, in := subjectOf(&spans[i]), &spans[i]
		switch {
		case s.named && s.number >= first:
			holds[in.TraceID] |= since
		case s.named || in.Start < begin:
			holds[in.TraceID] |= earlier
		case in.Start <= end:
			holds[in.TraceID] |= within
		}
	}
	return slices.DeleteFunc(spans, func(s span.Span) bool {
		h := holds[s.TraceID]
		return h != within && h&since == 0
	})
}

func classify(spans []span.Span, truth Truth, byMethod bool) Report {
	r := Report{Spans: len(spans), Incomplete: map[string]int{}, Unlinked: map[string]int{}}
	traces := map[span.TraceID][]int{} // indices into spans
	var order []span.TraceID
	for i := range spans {
		id := spans[i].TraceID
		if traces[id] == nil {
			order = append(order, id)
		}
		traces[id] = append(traces[id], i)
	}
	r.Traces = len(order)
	holders := map[uint64]int{} // traces that hold a number
	for _, id := range order {
		t := newTrace(spans, traces[id], byMethod)
		r.Orphaned += t.orphans
		for n := range t.numbers {
			holders[n]++
		}
		switch reason := t.verdict(truth(t.number())); {
		case len(t.numbers) > 1:
			r.Wrong++
			r.WrongIDs = append(r.WrongIDs, id)
		case reason == "":
			r.Complete++
			r.CompleteIDs = append(r.CompleteIDs, id)
			if slices.ContainsFunc(t.nodes, func(n *node) bool { return !n.subject.named }) {
				r.ByMethod++
			}
		default:
			if where := t.cut(); where != "" {
				r.Unlinked[where]++
			} else {
				r.Incomplete[reason]++
			}
		}
	}
	for _, n := range holders {
		if n > 1 {
			r.Split++
		}
	}
	return r
}

// trace is the tree of one trace.
type trace struct {
	nodes   []*node
	roots   []*node // without a parent
	orphans int     // with a parent that is not there
	numbers map[uint64]struct{}
}

type node struct {
	span     *span.Span
	subject  subject
	told     bool // its subject is compared
	children []*node
	used     bool // has a place in the shape
}

func newTrace(spans []span.Span, indices []int, byMethod bool) *trace {
	t := &trace{numbers: map[uint64]struct{}{}}
	byID := make(map[span.ID]*node, len(indices))
	for _, i := range indices {
		n := &node{span: &spans[i], subject: subjectOf(&spans[i])}
		n.told = n.subject.named || byMethod && n.subject.call
		t.nodes = append(t.nodes, n)
		if byID[n.span.ID] == nil { // of two with one id, the first has the children
			byID[n.span.ID] = n
		}
		if n.subject.named {
			t.numbers[n.subject.number] = struct{}{}
		}
	}
	for _, n := range t.nodes {
		switch parent := byID[n.span.Parent]; {
		case n.span.Parent.IsZero():
			t.roots = append(t.roots, n)
		case parent == nil || parent == n:
			t.orphans++
		default:
			parent.children = append(parent.children, n)
		}
	}
	return t
}

// number of the trace's request. Of several, which make it wrong, it is the least.
func (t *trace) number() uint64 {
	least, found := uint64(0), false
	for n := range t.numbers {
		if !found || n < least {
			least, found = n, true
		}
	}
	return least
}

// verdict is the first reason why the trace does not have the shape, or "".
// What is missing comes before what is too much: it explains more.
func (t *trace) verdict(shape Shape) string {
	if reason := t.place(shape, t.roots); reason != "" {
		return reason
	}
	if t.orphans > 0 {
		return "orphaned span" // beside a whole tree
	}
	for _, n := range t.nodes {
		if !n.used {
			return fmt.Sprintf("unexpected %s %s span", n.service(), n.span.Kind)
		}
	}
	return ""
}

// place finds the span for a shape among the candidates, then those below it.
func (t *trace) place(s Shape, candidates []*node) string {
	var found *node
	for _, n := range candidates {
		if !n.is(s) {
			continue
		}
		if found != nil {
			return "duplicated " + s.String()
		}
		found = n
	}
	if found == nil {
		return t.absence(s, candidates)
	}
	found.used = true
	for _, c := range s.Children {
		if reason := t.place(c, found.children); reason != "" {
			return reason
		}
	}
	return ""
}

// absence says in which way the span for a shape is not where it must be.
func (t *trace) absence(s Shape, candidates []*node) string {
	for _, n := range candidates {
		if n.at(s) && !n.told && !n.used {
			return "unnamed " + s.String()
		}
	}
	for _, n := range t.nodes {
		if !n.is(s) {
			continue
		}
		switch {
		case n.span.Parent.IsZero():
			return "unlinked " + s.String() // it came as a root
		case t.parentOf(n) != nil:
			return "misplaced " + s.String() // below another span
		default:
			return "orphaned " + s.String() // its parent never came
		}
	}
	return "missing " + s.String()
}

// cut is where the trace begins or ends because a service did not link what it sent, as its spans say; "" if they do not.
func (t *trace) cut() string {
	for _, n := range t.roots {
		if a, ok := n.span.Attr(semconv.Behind); ok {
			return "begins behind " + a.Str
		}
	}
	for _, n := range t.nodes {
		if _, ok := n.span.Attr(semconv.LinkingReason); ok && n.span.Kind == span.Server {
			return "ends at " + n.service()
		}
	}
	return ""
}

func (t *trace) parentOf(child *node) *node {
	for _, n := range t.nodes {
		if n.span.ID == child.span.Parent && n != child {
			return n
		}
	}
	return nil
}

func (n *node) service() string {
	if n.span.Resource == nil {
		return "(no service)"
	}
	return n.span.Resource.Service
}

// at reports whether the span is of the service and kind of s; is compares its
// subject, too.
func (n *node) at(s Shape) bool {
	return n.span.Kind == s.Kind && n.service() == s.Service
}

func (n *node) is(s Shape) bool {
	return n.at(s) && n.told && n.subject.prefix == s.Prefix
}
