package store

import (
	"math"
	"slices"
	"sort"

	"github.com/tare-trace/tare/otel/wire"
)

// projection maps what is seen of a chunk to what is stored. The bytes of a trace's spans are as they are
// stored; all columns, bounds and names are of the spans that are seen.
type projection struct {
	ordinals []uint32 // as they are stored, of the traces of which something is seen; rising
	numbers  []uint32 // of each span that is seen: its number among the spans of its trace as they are stored
}

// project makes the chunk one that has only the spans to keep. What is computed from several spans (calls, and
// what the collector said of a trace) stays if the span that it is stored with is seen.
func (c *chunkData) project(l *lens, keep []bool) error {
	p := &projector{c: c, lens: l, keep: keep, zone: *c.zone, at: make([]int32, len(keep))}
	for col := range columns {
		got, err := c.column(col)
		if err != nil {
			return err
		}
		p.was[col] = got
	}
	p.names = *c.names
	p.operations()
	if err := p.spansAndTraces(); err != nil {
		return err
	}
	if err := p.calls(); err != nil {
		return err
	}
	p.zone.traces, p.zone.spans = uint32(len(p.ordinals)), uint32(len(p.numbers)) //nolint:gosec // not more than were stored
	for i := range p.now {
		c.columns[i] = &p.now[i]
	}
	c.zone, c.names, c.projection = &p.zone, &p.names, &p.projection
	return nil
}

// projector is a projection that is being made.
type projector struct {
	projection
	c        *chunkData
	lens     *lens
	keep     []bool
	zone     zone
	names    names
	was, now [columns]column
	at       []int32 // where a span is now; -1: nowhere
}

// operations begins the counts of operations anew.
func (p *projector) operations() {
	p.names.operations = slices.Clone(p.names.operations)
	for i := range p.names.operations {
		o := &p.names.operations[i]
		*o = operation{service: o.service, name: o.name, kind: o.kind, minDuration: math.MaxUint64}
	}
	z := &p.zone
	z.errors, z.states, z.edges = 0, 0, 0
	z.minStart, z.maxStart, z.maxFrom, z.minDuration, z.maxDuration = math.MaxUint64, 0, 0, math.MaxUint64, 0
}

// span takes over what of a span is in columns.
func (p *projector) span(i int) {
	start, duration, flags := p.c.zone.minStart+p.was[colStart].at(i), p.was[colDuration].at(i), p.was[colFlags].at(i)
	z, o := &p.zone, &p.names.operations[p.was[colOperation].at(i)]
	z.minStart, z.maxStart = min(z.minStart, start), max(z.maxStart, start)
	z.minDuration, z.maxDuration = min(z.minDuration, duration), max(z.maxDuration, duration)
	o.spans++
	if flags&flagError != 0 {
		z.errors++
		o.errors++
	}
	if flags&flagRoot != 0 {
		o.roots++
	}
	o.minDuration, o.maxDuration, o.maxStart = min(o.minDuration, duration), max(o.maxDuration, duration), max(o.maxStart, start)
}

func (p *projector) spansAndTraces() error {
	old := p.c.zone
	var spans, first []int // as they were; of each trace, its first span now
	var from, length, top, verdicts []uint64
	for t := range int(old.traces) {
		a, b := int(p.was[colFirst].at(t)), int(old.spans) //nolint:gosec // checked below
		if t+1 < int(old.traces) {
			b = int(p.was[colFirst].at(t + 1)) //nolint:gosec // checked below
		}
		v := p.was[colVerdict].at(t)
		if a < 0 || a >= b || b > int(old.spans) || v >= uint64(len(p.names.verdicts)) {
			return corrupt("chunk %d, trace %d", old.chunk, t)
		}
		begin, start, end, best, said := len(spans), uint64(math.MaxUint64), uint64(0), 0, false
		for i := a; i < b; i++ {
			if p.at[i] = -1; !p.keep[i] {
				continue
			}
			p.at[i] = int32(len(spans)) //nolint:gosec // a chunk has fewer
			spans = append(spans, i)
			p.numbers = append(p.numbers, uint32(i-a)) //nolint:gosec // likewise
			p.span(i)
			s := old.minStart + p.was[colStart].at(i)
			start, end = min(start, s), max(end, s+p.was[colDuration].at(i))
			if len(spans)-begin == 1 || p.above(i, spans[begin+best]) {
				best = len(spans) - 1 - begin
			}
			said = said || uint64(i-a) == p.was[colTop].at(t)
		}
		if len(spans) == begin {
			continue
		}
		if !said {
			v = 0 // nothing
		}
		p.ordinals = append(p.ordinals, uint32(t)) //nolint:gosec // a chunk has fewer
		first, from, length = append(first, begin), append(from, start), append(length, end-start)
		top, verdicts = append(top, uint64(best)), append(verdicts, v)
		p.zone.maxFrom = max(p.zone.maxFrom, start)
		p.zone.states |= stateBit(p.names.verdicts[v].state) | old.states&retroBit
	}
	if len(spans) == 0 {
		p.zone.minStart, p.zone.minDuration = old.minStart, 0
	}
	for i := range from {
		from[i] -= p.zone.minStart
	}
	bySpan := func(col int, value func(i int) uint64) {
		values := make([]uint64, len(spans))
		for to, i := range spans {
			values[to] = value(i)
		}
		p.now[col] = columnOfAll(values)
	}
	for _, col := range [...]int{colOperation, colDuration, colFlags} {
		bySpan(col, p.was[col].at)
	}
	bySpan(colStart, func(i int) uint64 { return old.minStart + p.was[colStart].at(i) - p.zone.minStart })
	firsts := make([]uint64, len(first))
	for i, f := range first {
		firsts[i] = uint64(f) //nolint:gosec // an index
	}
	for col, values := range map[int][]uint64{colFirst: firsts, colFrom: from, colLength: length, colTop: top, colVerdict: verdicts} {
		p.now[col] = columnOfAll(values)
	}
	for _, col := range [...]int{colWeight, colBlock, colOffset, colBytes} {
		values := make([]uint64, len(p.ordinals))
		for to, t := range p.ordinals {
			values[to] = p.was[col].at(int(t))
		}
		p.now[col] = columnOfAll(values)
	}
	ids := column{16, make([]byte, 0, 16*len(p.ordinals))}
	for _, t := range p.ordinals {
		ids.b = append(ids.b, p.was[colTraceID].b[16*t:16*t+16]...)
	}
	p.now[colTraceID] = ids
	return nil
}

// above reports whether span i rather than j is the top span.
func (p *projector) above(i, j int) bool {
	if a, b := p.was[colFlags].at(i)&flagRoot, p.was[colFlags].at(j)&flagRoot; a != b {
		return a != 0
	}
	return p.was[colStart].at(i) < p.was[colStart].at(j)
}

// calls leaves those that a span measures that is seen, of callers that are. Callees that are not have one name
// together.
func (p *projector) calls() error {
	p.names.edges = slices.Clone(p.names.edges)
	seen := func(service string) bool { return p.lens.scope == nil || p.lens.scope.Service(service) }
	leave := make([]bool, len(p.names.edges))
	for i := range p.names.edges {
		e := &p.names.edges[i]
		leave[i] = !seen(p.names.services[e.from])
		if e.traced && !seen(e.to) {
			e.to = OtherServices
		}
	}
	var edges, spans []uint64
	for n := range int(p.c.zone.edges) {
		e, i := p.was[colEdge].at(n), p.was[colEdgeSpan].at(n)
		if e >= uint64(len(leave)) || i >= uint64(len(p.at)) {
			return corrupt("chunk %d has no edge %d, or no span %d", p.zone.chunk, e, i)
		}
		if at := p.at[i]; at >= 0 && !leave[e] {
			edges, spans = append(edges, e), append(spans, uint64(at))
		}
	}
	p.zone.edges = uint32(len(edges)) //nolint:gosec // not more than were stored
	p.now[colEdge], p.now[colEdgeSpan] = columnOfAll(edges), columnOfAll(spans)
	return nil
}

func columnOfAll(values []uint64) column {
	top := uint64(0)
	for _, v := range values {
		top = max(top, v)
	}
	return columnOf(values, top)
}

// seen returns which of the traces that are seen is the n-th that is stored.
func (c *chunkData) seen(ordinal uint32) (uint32, bool) {
	if c.projection == nil {
		return ordinal, true
	}
	i, ok := slices.BinarySearch(c.projection.ordinals, ordinal)
	return uint32(i), ok //nolint:gosec // an index
}

// spansOf returns which spans, [first, next), are of trace t.
func (c *chunkData) spansOf(column column, t int) (first, next int) {
	next = int(c.zone.spans)
	if t+1 < int(c.zone.traces) {
		next = int(min(column.at(t+1), uint64(c.zone.spans))) //nolint:gosec // bounded
	}
	return int(min(column.at(t), uint64(next))), next //nolint:gosec // bounded
}

// number returns which of its trace's spans, as they are stored, the i-th of the chunk is. The first that is seen
// of the trace is first.
func (c *chunkData) number(i, first int) int {
	if c.projection == nil {
		return i - first
	}
	return int(c.projection.numbers[i])
}

// spanAt returns the place in the chunk's columns of the span that is the n-th of its trace as it is stored; of the
// trace, the spans [first, next) are seen.
func (c *chunkData) spanAt(n, first, next int) (i int, ok bool) {
	if c.projection == nil {
		return first + n, first+n < next
	}
	numbers := c.projection.numbers[first:next]
	at := sort.Search(len(numbers), func(i int) bool { return int(numbers[i]) >= n })
	return first + at, at < len(numbers) && int(numbers[at]) == n
}

// eachSpan calls f for the spans of a run: their content, and the whole field.
func eachSpan(run []byte, f func(content, whole []byte) error) error {
	return eachField(run, func(tag, _ uint64, content, whole []byte) error {
		if tag != wire.ScopeSpansSpan {
			return nil
		}
		return f(content, whole)
	})
}
