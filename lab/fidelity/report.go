package fidelity

import "github.com/tare-trace/tare/span"

// Report counts the traces of a run. Every trace is in exactly one of
// Complete, Unlinked, Incomplete and Wrong.
type Report struct {
	Traces     int
	Spans      int
	Complete   int
	ByMethod   int            // of the complete ones, those in which a call names its method alone
	Unlinked   map[string]int // by where they begin or end, as a service did not link what it sent; one per trace
	Incomplete map[string]int // by reason, one per trace
	Wrong      int            // traces that hold the numbers of two requests
	Orphaned   int            // spans whose parent never came, in any trace

	// Split counts the requests whose spans are in more than one trace.
	Split int

	// CompleteIDs are the traces that are complete, in the order in which
	// they first appeared; WrongIDs those that are wrong.
	CompleteIDs, WrongIDs []span.TraceID
}

// NoSpan is the reason of a trace that was sampled and of which nothing came.
const NoSpan = "no span arrived"

// Expect adds the traces that were sampled, by the tracer's own count, and
// of which not one span arrived.
func (r *Report) Expect(sampled int) {
	if absent := sampled - r.Traces; absent > 0 {
		r.Incomplete[NoSpan] += absent
		r.Traces = sampled
	}
}

// IncompleteTotal is the number of incomplete traces.
func (r *Report) IncompleteTotal() int { return sum(r.Incomplete) }

// UnlinkedTotal is the number of traces that begin or end where something was not linked.
func (r *Report) UnlinkedTotal() int { return sum(r.Unlinked) }

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
