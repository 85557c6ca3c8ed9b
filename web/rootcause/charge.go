package rootcause

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/web/waterfall"
)

// Kind is what time is charged to.
type Kind string

// The kinds. Peer: a service that sent no span of its own, named by its caller. Between: a
// service waited for another that had not yet received the request, or whose response it
// had not yet read: the network, and queues at both ends.
const (
	Own     Kind = "own"
	Peer    Kind = "peer"
	Between Kind = "between"
)

// place is what time is charged to, as spans say it.
type place struct {
	kind      Kind
	service   string
	from      string // Between, Peer: who waited
	operation string
}

// charge is what one trace spent at one place, in nanoseconds.
type charge struct {
	place    int32
	self     float64 // on the critical path, in the spans themselves
	within   float64 // the same with all that they waited for
	spans    int32   // on the critical path
	unlinked bool    // calls of such a span may be missing
}

// took is one span's own time, on the critical path or not.
type took struct {
	place int32
	self  float64
}

// observation is what is kept of a trace.
type observation struct {
	id       pcommon.TraceID
	entry    int32 // a place
	duration float64
	weight   float64
	whole    bool
	failed   bool
	keep     string
	charges  []charge
	spans    []took
}

// observe analyses the spans of one trace, and moves their times where clocks are wrong;
// ok is false if it is not known which span is its root.
func (s *Set) observe(td ptrace.Traces) (o observation, ok bool) {
	alignClocks(td)
	t := waterfall.Analyse(td)
	root, alone := rootOf(t)
	if root == nil {
		return o, false
	}
	o = observation{id: t.ID, duration: float64(root.Duration), weight: t.Weight, keep: t.Keep,
		whole:  alone && !lacks(t.Reason),
		failed: root.Status().Code() == ptrace.StatusCodeError}
	o.entry = s.places.intern(place{kind: Own, service: t.Services[root.Service].Name, operation: root.Name()}, root.Target)
	s.charge(&o, t)
	return o, true
}

// rootOf returns the span without a parent, or the one whose parent is the only one that
// is not in the trace: it was sent by a caller outside. alone: all other spans are below.
func rootOf(t *waterfall.Trace) (root *waterfall.Span, alone bool) {
	tops, roots := 0, 0
	for i := range t.Spans {
		x := &t.Spans[i]
		if x.Depth > 0 {
			continue
		}
		tops++
		if x.ParentSpanID().IsEmpty() {
			roots++
			root = x
		} else if root == nil {
			root = x
		}
	}
	if roots > 1 || roots == 0 && tops > 1 {
		return nil, false
	}
	return root, tops == 1
}

// lacks reports whether tare_tracer found that spans are missing below the root. A root
// whose own parent is not here is the caller's, which is not part of the trace.
func lacks(reasons string) bool {
	for _, r := range split(reasons) {
		switch r {
		case "no_root", "parent_missing", "several_roots":
		default:
			return true
		}
	}
	return false
}

// charge charges the critical path to places. The spans are in depth-first order.
func (s *Set) charge(o *observation, t *waterfall.Trace) {
	n := len(t.Spans)
	answered := make([]string, n) // of client spans: the service whose span is below
	critical := make([]float64, n)
	above := make([]int32, n)
	servers := map[pcommon.SpanID]string{} // for spans that share an id with their caller's
	isServer := func(k ptrace.SpanKind) bool { return k == ptrace.SpanKindServer || k == ptrace.SpanKindConsumer }
	var path []int32
	for i := range t.Spans {
		x := &t.Spans[i]
		path = path[:min(x.Depth, len(path))]
		above[i] = -1
		if len(path) > 0 {
			above[i] = path[len(path)-1]
		}
		path = append(path, int32(i))
		if isServer(x.Kind()) {
			servers[x.SpanID()] = t.Services[x.Service].Name
			if above[i] >= 0 {
				answered[above[i]] = t.Services[x.Service].Name
			}
		}
		for _, c := range x.Critical {
			critical[i] += float64(c.To - c.From)
		}
		o.whole = o.whole && !x.MissingServer
	}
	within := append([]float64(nil), critical...)
	for i := n - 1; i > 0; i-- {
		if above[i] >= 0 {
			within[above[i]] += within[i]
		}
	}
	at := map[int32]int{} // place -> index in o.charges
	placeOf := make([]int32, n)
	o.spans = make([]took, 0, n)
	for i := range t.Spans {
		x := &t.Spans[i]
		service := t.Services[x.Service].Name
		p := place{kind: Own, service: service, operation: x.Name()}
		target, unlinked := x.Target, false
		switch k := x.Kind(); {
		case k == ptrace.SpanKindClient || k == ptrace.SpanKindProducer:
			to := answered[i]
			if to == "" {
				to = servers[x.SpanID()]
			}
			if to != "" {
				p, target = place{kind: Between, service: to, from: service}, ""
			} else if name := peerOf(x); name != "" {
				p = place{kind: Peer, service: name, from: service, operation: x.Name()}
			}
		case isServer(k):
			linking, said := x.Attributes().Get(semconv.Linking)
			unlinked = said && linking.Str() != semconv.LinkingHeader
		}
		placeOf[i] = s.places.intern(p, target)
		o.spans = append(o.spans, took{placeOf[i], float64(x.Self)})
		if within[i] == 0 {
			continue
		}
		k, ok := at[placeOf[i]]
		if !ok {
			k = len(o.charges)
			at[placeOf[i]] = k
			o.charges = append(o.charges, charge{place: placeOf[i]})
		}
		c := &o.charges[k]
		c.self += critical[i]
		c.spans++
		c.unlinked = c.unlinked || unlinked
		if !below(above, placeOf, i) {
			c.within += within[i]
		}
	}
}

// below reports whether a span is below another one of its place: a service that calls
// itself. It looks at no more than 100 spans above.
func below(above, placeOf []int32, i int) bool {
	up := above[i]
	for range 100 {
		if up < 0 {
			break
		}
		if placeOf[up] == placeOf[i] {
			return true
		}
		up = above[up]
	}
	return false
}

func peerOf(x *waterfall.Span) string {
	var p semconv.Peer
	for key, v := range x.Attributes().All() {
		if f := p.Field(key); f != nil {
			*f = v.AsString()
		}
	}
	return p.Name(x.Kind() == ptrace.SpanKindProducer)
}
