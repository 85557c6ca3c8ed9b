package fidelity

import "github.com/tare-trace/tare/span"

// Links are the calls that services made for requests of which there is a span: what is left of Calls was not linked.
type Links struct {
	Calls  int // that the ground truth has
	Linked int // that are below their request
	Wrong  int // that are below another request
}

// CountLinks compares each call with the request that it is below. A call that names no request, as one of FastCGI,
// is taken to be of the one that it is below.
func CountLinks(spans []span.Span, truth Truth) Links {
	traces := map[span.TraceID][]int{}
	for i := range spans {
		traces[spans[i].TraceID] = append(traces[spans[i].TraceID], i)
	}
	var l Links
	for _, indices := range traces {
		t := newTrace(spans, indices, false)
		callers := map[string]Shape{}
		findCallers(truth(t.number()), callers)
		for _, n := range t.nodes {
			if s, ok := callers[n.service()]; ok && n.span.Kind == span.Server {
				l.add(t.linksOf(n, s))
			}
		}
	}
	return l
}

// findCallers adds the services that call others, by name.
func findCallers(s Shape, to map[string]Shape) {
	if s.Kind == span.Server && len(s.Children) > 0 {
		to[s.Service] = s
	}
	for _, c := range s.Children {
		findCallers(c, to)
	}
}

func (l *Links) add(m Links) {
	l.Calls, l.Linked, l.Wrong = l.Calls+m.Calls, l.Linked+m.Linked, l.Wrong+m.Wrong
}

// linksOf are the calls below a server's span. A call that was made twice counts once.
func (t *trace) linksOf(n *node, s Shape) Links {
	l := Links{Calls: len(s.Children)}
	number := t.requestOf(n)
	for _, c := range s.Children {
		right, wrong := 0, 0
		for _, child := range n.children {
			switch {
			case !child.at(c) || child.subject != (subject{}) && child.subject.prefix != c.Prefix:
			case child.subject.named && child.subject.number != number:
				wrong++
			default:
				right++
			}
		}
		if wrong > 0 {
			l.Wrong++
		} else if right > 0 {
			l.Linked++
		}
	}
	return l
}

// requestOf is the number of the nearest span above that has one, itself included.
func (t *trace) requestOf(n *node) uint64 {
	for range t.nodes {
		if n.subject.named {
			return n.subject.number
		}
		above := t.parentOf(n)
		if above == nil {
			break
		}
		n = above
	}
	return t.number()
}
