package integration

import (
	"math"
	"testing"

	"github.com/tare-trace/tare/span"
)

// branch is a span with those below it, by where and how it was made: for
// spans that do not tell their request's number.
type branch struct {
	service string
	kind    span.Kind
	name    string // "*": any
	below   []branch
}

// wantBranches requires that a share of the requests made a trace that is
// exactly the branch, that no trace is larger than it, and that what is in two traces
// was counted.
func wantBranches(t *testing.T, spans []span.Span, want branch, m metrics, requests int, share float64) {
	t.Helper()
	traces := map[span.TraceID][]*span.Span{}
	for i := range spans {
		traces[spans[i].TraceID] = append(traces[spans[i].TraceID], &spans[i])
	}
	complete, larger, other := 0, 0, span.TraceID{}
	for id, members := range traces {
		children := map[span.ID][]*span.Span{}
		for _, s := range members {
			children[s.Parent] = append(children[s.Parent], s)
		}
		switch {
		case len(members) == want.size() && len(children[span.ID{}]) == 1 && want.is(children[span.ID{}][0], children):
			complete++
		case len(members) > want.size():
			larger++
			other = id
		default:
			other = id
		}
	}
	t.Logf("%d spans, %d traces: %d complete, %d with too many spans", len(spans), len(traces), complete, larger)
	if least := int(math.Ceil(share*float64(requests))) - spare; complete < least || larger > 0 || len(traces) > requests+spare+m.unlinked() {
		t.Errorf("%d traces, %d complete, of %d requests, want %d; %d with too many spans, such as\n%v", len(traces), complete, requests, least, larger, m)
		show(t, spans, other)
	}
}

func (b branch) size() int {
	n := 1
	for _, c := range b.below {
		n += c.size()
	}
	return n
}

func (b branch) is(s *span.Span, children map[span.ID][]*span.Span) bool {
	if s.Resource.Service != b.service || s.Kind != b.kind || b.name != "*" && s.Name != b.name || len(children[s.ID]) != len(b.below) {
		return false
	}
	for _, want := range b.below {
		found := 0
		for _, c := range children[s.ID] {
			if want.is(c, children) {
				found++
			}
		}
		if found == 0 {
			return false
		}
	}
	return true
}
