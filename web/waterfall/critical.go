package waterfall

import (
	"cmp"
	"slices"
)

// critical finds the critical path: what the end of the top span waited for (Zhang et
// al., "CRISP: Critical Path Analysis of Large-Scale Microservice Architectures", USENIX
// ATC 2022, section 3). It goes backwards from the end of a span, each time into the
// child that finished last before that point. The times without such a child belong to
// the span itself. A child that ran in parallel to the one waited for is not on the path.
//
// Children count only as far as they lie within their parent: no span above waited for
// what an asynchronous child did after its parent's end.
//
// at says where in out.Spans each span is.
func (t *tree) critical(out *Trace, at []int) {
	type window struct {
		span     int32
		from, to uint64
	}
	top := t.top()
	stack := []window{{top, t.flats[top].Start, t.flats[top].End}}
	var byEnd []int32
	for len(stack) > 0 {
		w := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		byEnd = byEnd[:0]
		for _, c := range t.Children(w.span) {
			if t.Above[c] == w.span {
				byEnd = append(byEnd, c)
			}
		}
		slices.SortFunc(byEnd, func(a, b int32) int {
			x, y := &t.flats[a], &t.flats[b]
			return cmp.Or(cmp.Compare(y.End, x.End), cmp.Compare(x.Start, y.Start), cmp.Compare(a, b))
		})
		own := func(from, to uint64) {
			if from < to {
				s := &out.Spans[at[w.span]]
				s.Critical = append(s.Critical, Interval{from - out.Start, to - out.Start})
			}
		}
		point := w.to
		for _, c := range byEnd {
			from, to := max(t.flats[c].Start, w.from), min(t.flats[c].End, w.to)
			if from >= to || to > point {
				continue
			}
			own(to, point)
			stack = append(stack, window{c, from, to})
			point = from
		}
		own(w.from, point)
		slices.Reverse(out.Spans[at[w.span]].Critical)
	}
}

// top is the span that stands for the trace: the root; of several the
// earliest, and without one the earliest span that has its parent not here.
func (t *tree) top() int32 {
	for i := range t.flats {
		if t.flats[i].Parent.IsZero() {
			return int32(i)
		}
	}
	return t.Order[0]
}
