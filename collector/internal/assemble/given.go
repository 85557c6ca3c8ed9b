package assemble

import "go.opentelemetry.io/collector/pdata/pcommon"

// given remembers traces that were given out, and of each span a fingerprint:
// what comes after is late, and what comes again is a duplicate. It forgets the
// oldest first. No pointers in it: the garbage collector does not read it.
type given struct {
	traces map[pcommon.TraceID]prints
	order  []pcommon.TraceID // ring
	slot   int               // in order: the next, and when it is full the oldest
	spans  []uint32          // ring of fingerprints
	head   uint64            // how many were ever written
}

// prints are the fingerprints of one trace: n of them from spans[from%len].
type prints struct {
	from uint64
	n    uint32
}

// How many fingerprints are kept for each trace on average, and at most of one:
// a trace with more has its duplicates taken for late spans.
const (
	printsPerTrace = 8
	maxPrints      = 4096
)

func newGiven(traces int) *given {
	return &given{
		traces: map[pcommon.TraceID]prints{},
		order:  make([]pcommon.TraceID, traces),
		spans:  make([]uint32, max(traces*printsPerTrace, maxPrints)),
	}
}

// add remembers a trace and the spans that were given out of it.
func (g *given) add(id pcommon.TraceID, items []item) {
	p := prints{from: g.head}
	for i := range items {
		if i == maxPrints {
			break
		}
		g.spans[g.head%uint64(len(g.spans))] = fingerprint(&items[i])
		g.head++
		p.n++
	}
	if _, ok := g.traces[id]; !ok {
		delete(g.traces, g.order[g.slot])
		g.order[g.slot] = id
		g.slot = (g.slot + 1) % len(g.order)
	}
	g.traces[id] = p
}

// has reports whether a trace was given out, and whether the span was in it.
func (g *given) has(id pcommon.TraceID, x *item) (trace, span bool) {
	p, ok := g.traces[id]
	if !ok {
		return false, false
	}
	if g.head-p.from > uint64(len(g.spans)) {
		return true, false // overwritten
	}
	want := fingerprint(x)
	for i := range uint64(p.n) {
		if g.spans[(p.from+i)%uint64(len(g.spans))] == want {
			return true, true
		}
	}
	return true, false
}

// late remembers a late span, as far as there is room behind those of its trace.
func (g *given) late(id pcommon.TraceID, x *item) {
	p := g.traces[id]
	if p.from+uint64(p.n) != g.head {
		// Others were written since: begin anew with the old ones copied.
		if g.head-p.from > uint64(len(g.spans)) || p.n >= maxPrints/4 {
			return
		}
		from := g.head
		for i := range uint64(p.n) {
			g.spans[g.head%uint64(len(g.spans))] = g.spans[(p.from+i)%uint64(len(g.spans))]
			g.head++
		}
		p.from = from
	}
	if p.n == maxPrints {
		return
	}
	g.spans[g.head%uint64(len(g.spans))] = fingerprint(x)
	g.head++
	p.n++
	g.traces[id] = p
}

// fingerprint is of what tells spans apart that share an id: the two sides of a
// call, or spans of somebody who repeats ids.
func fingerprint(x *item) uint32 {
	h := (x.id ^ uint64(x.kind)<<56) * 0x9e3779b97f4a7c15
	h = (h ^ uint64(x.span.StartTimestamp())) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>32 ^ uint64(x.span.EndTimestamp())) * 0x94d049bb133111eb
	return uint32(h >> 32)
}
