package assemble

import "go.opentelemetry.io/collector/pdata/pcommon"

// history remembers which traces were emitted, and a fingerprint of each of their
// spans: a later span of such a trace is late, and one with the same fingerprint is
// a duplicate. It forgets the oldest first. It contains no pointers, so that the
// garbage collector does not scan it.
type history struct {
	traces map[pcommon.TraceID]prints
	order  []pcommon.TraceID // ring
	slot   int               // index in order of the next entry; once order is full, of the oldest
	spans  []uint32          // ring of fingerprints
	head   uint64            // fingerprints written since the start
}

// prints locates the fingerprints of one trace: n of them from spans[from%len].
type prints struct {
	from uint64
	n    uint32
}

// Fingerprints kept for each trace on average, and at most for one trace. Beyond
// that, a duplicate counts as a late span.
const (
	printsPerTrace = 8
	maxPrints      = 4096
)

func newHistory(traces int) *history {
	return &history{
		traces: map[pcommon.TraceID]prints{},
		order:  make([]pcommon.TraceID, traces),
		spans:  make([]uint32, max(traces*printsPerTrace, maxPrints)),
	}
}

// add records an emitted trace and its spans.
func (g *history) add(id pcommon.TraceID, items []item) {
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

// has reports whether the trace was emitted, and whether this span was part of it.
func (g *history) has(id pcommon.TraceID, x *item) (trace, span bool) {
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

// late records a late span with its trace, unless the trace has too many already.
func (g *history) late(id pcommon.TraceID, x *item) {
	p := g.traces[id]
	if p.from+uint64(p.n) != g.head {
		// Other traces wrote behind this one: copy its fingerprints to the head.
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

// fingerprint covers what distinguishes spans that share an id: the two sides of a
// call, or spans of a sender that reuses ids.
func fingerprint(x *item) uint32 {
	h := (x.id ^ uint64(x.kind)<<56) * 0x9e3779b97f4a7c15
	h = (h ^ uint64(x.span.StartTimestamp())) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>32 ^ uint64(x.span.EndTimestamp())) * 0x94d049bb133111eb
	return uint32(h >> 32)
}
