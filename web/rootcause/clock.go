package rootcause

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
)

// endSlack is how much later than the span that called it a server span may end without
// proving that a clock is wrong, in nanoseconds: tare_tracer has the same.
const endSlack = 1_000_000

// alignClocks moves server spans into the spans that called them where the two hosts'
// clocks cannot agree: a request does not arrive before it was sent, and a response is not
// written after it was read. Spans below move with it. tare_tracer corrects clocks by all
// calls between two hosts; this is for spans that did not come through it, and keeps the
// time on the network at or above 0, in sum for both directions. It changes td.
func alignClocks(td ptrace.Traces) {
	type placed struct {
		span.Node
		span ptrace.Span
	}
	all := make([]placed, 0, td.SpanCount())
	for r, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				start := uint64(s.StartTimestamp())
				all = append(all, placed{span.Node{ID: span.ID(s.SpanID()), Parent: span.ID(s.ParentSpanID()),
					Start: start, End: max(uint64(s.EndTimestamp()), start), Kind: span.Kind(s.Kind()), Resource: r}, s})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.Start, b.Start) })
	nodes := make([]span.Node, len(all))
	for i := range all {
		nodes[i] = all[i].Node
	}
	tree := span.NewTree(nodes)
	moved := make([]int64, len(all)) // what is added to each span's times, modulo 2^64
	for _, i := range tree.Order {
		above := tree.Above[i]
		if above < 0 {
			continue
		}
		up, at := &all[above], &all[i]
		moved[i] = moved[above]
		if at.Resource != up.Resource && at.Kind == span.Server && at.Start != 0 && up.Start != 0 {
			moved[i] += into(at.Node, up.Node, up.Kind == span.Client)
		}
		if by := moved[i]; by != 0 && at.Start != 0 {
			at.span.SetStartTimestamp(pcommon.Timestamp(at.Start + uint64(by)))
			at.span.SetEndTimestamp(pcommon.Timestamp(at.End + uint64(by)))
		}
	}
}

// into is how far to move s so that it lies within up: to the middle, or to up's beginning
// if it is longer; 0 unless a clock is wrong. Only who waited for the answer proves
// something by its end.
func into(s, up span.Node, waited bool) int64 {
	took, room := s.End-s.Start, up.End-up.Start
	if s.Start >= up.Start && !(waited && took <= room && s.End > up.End+endSlack) {
		return 0
	}
	to := up.Start
	if took <= room {
		to += (room - took) / 2
	}
	return int64(to - s.Start)
}
