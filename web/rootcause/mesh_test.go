package rootcause

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// node is an operation of a service in a mesh, and what it calls: stages one after the
// other, the calls of each at once.
type node struct {
	service, operation string
	untraced           bool // it sends no span
	own                float64
	stages             [][]*node
	// Added to its own time, in ns, in so many requests.
	slow      func(r *rand.Rand) float64
	every     float64
	clock     int64   // of its host, ns ahead
	lost      float64 // probability that its span is lost
	wire      float64 // ns in both directions together, on average
	slowWires bool    // slow is added to the wire and not to its own time
}

// mesh makes random trees of n operations. Own times are lognormal around 0.2 to 2 ms.
func mesh(r *rand.Rand, n int) (root *node, all []*node) {
	all = []*node{}
	add := func() *node {
		x := &node{service: fmt.Sprintf("s%d", len(all)), operation: fmt.Sprintf("op%d", len(all)), own: (0.2 + 1.8*r.Float64()) * 1e6, wire: 1e5}
		all = append(all, x)
		return x
	}
	root = add()
	for len(all) < n {
		up := all[r.IntN(len(all))]
		if up.untraced {
			continue
		}
		x := add()
		x.untraced = r.IntN(4) == 0
		if k := len(up.stages); k > 0 && r.IntN(2) == 0 {
			up.stages[k-1] = append(up.stages[k-1], x)
		} else {
			up.stages = append(up.stages, []*node{x})
		}
	}
	return root, all
}

// inject makes a node 25 to 30 ms slower in a share of the requests, as ChainScope 5.3.
func (x *node) inject(every float64) {
	x.slow, x.every = func(r *rand.Rand) float64 { return (25 + 5*r.Float64()) * 1e6 }, every
}

// request makes spans of one request.
type request struct {
	r          *rand.Rand
	td         ptrace.Traces
	scopes     map[string]ptrace.SpanSlice
	id         pcommon.TraceID
	tracestate string
	noise      float64
}

func newRequest(r *rand.Rand) *request {
	q := &request{r: r, td: ptrace.NewTraces(), scopes: map[string]ptrace.SpanSlice{}, noise: 0.5}
	binary.BigEndian.PutUint64(q.id[:8], r.Uint64())
	binary.BigEndian.PutUint64(q.id[8:], r.Uint64())
	return q
}

func (q *request) span(service, name string, kind ptrace.SpanKind, parent pcommon.SpanID) ptrace.Span {
	spans, ok := q.scopes[service]
	if !ok {
		rs := q.td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", service)
		spans = rs.ScopeSpans().AppendEmpty().Spans()
		q.scopes[service] = spans
	}
	s := spans.AppendEmpty()
	var id pcommon.SpanID
	binary.BigEndian.PutUint64(id[:], q.r.Uint64()|1)
	s.SetTraceID(q.id)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(kind)
	s.TraceState().FromRaw(q.tracestate)
	return s
}

func around(s ptrace.Span, start, end float64, clock int64) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano() + clock
	s.SetStartTimestamp(pcommon.Timestamp(at + int64(start)))
	s.SetEndTimestamp(pcommon.Timestamp(at + int64(end)))
}

func (q *request) lognormal(median float64) float64 {
	return median * math.Exp(q.noise*q.r.NormFloat64())
}

// serve runs a node from start, and returns its end.
func (q *request) serve(x *node, parent pcommon.SpanID, start float64) float64 {
	own := q.lognormal(x.own)
	if x.slow != nil && !x.slowWires && q.r.Float64() < x.every {
		own += x.slow(q.r)
	}
	if x.untraced {
		return start + own
	}
	s := q.span(x.service, x.operation, ptrace.SpanKindServer, parent)
	piece := own / float64(len(x.stages)+1)
	at := start + piece
	for _, stage := range x.stages {
		last := at
		for _, y := range stage {
			c := q.span(x.service, "call", ptrace.SpanKindClient, s.SpanID())
			wire := q.lognormal(y.wire)
			if y.slowWires && q.r.Float64() < y.every {
				wire += y.slow(q.r)
			}
			end := q.serve(y, c.SpanID(), at+wire/2) + wire/2
			if y.untraced {
				c.SetName("get")
				c.Attributes().PutStr("peer.service", y.service)
			}
			around(c, at, end, x.clock)
			last = max(last, end)
		}
		at = last + piece
	}
	around(s, start, at, x.clock)
	if q.r.Float64() < x.lost {
		q.scopes[x.service].RemoveIf(func(y ptrace.Span) bool { return y.SpanID() == s.SpanID() })
	}
	return at
}

// requests is a Set of n requests to the mesh.
func requests(r *rand.Rand, root *node, n int) *Set {
	set := NewSet()
	for range n {
		q := newRequest(r)
		q.serve(root, pcommon.SpanID{}, 0)
		set.Add(q.td)
	}
	return set
}

// charged is the row that a node's time is charged to.
func (x *node) charged(r *Row) bool {
	switch {
	case x.slowWires && !x.untraced:
		return r.Kind == Between && r.Service == x.service
	case x.untraced:
		return r.Kind == Peer && r.Service == x.service
	}
	return r.Kind == Own && r.Service == x.service && (r.Operation == "" || r.Operation == x.operation)
}
