package store

import (
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/s2"
)

// blockSize is where a block ends, at the end of a trace, in bytes before
// compression: large enough to compress well, small enough that one trace costs
// little to read.
const blockSize = 64 << 10

// chunkWriter takes the keys and values of a chunk, which it copies.
type chunkWriter interface {
	put(key, value []byte) error
}

// chunkLayout is a chunk while it is laid out.
type chunkLayout struct {
	*builder
	zone    *zone
	out     chunkWriter
	cols    [columns]column
	filters [filterParts][]byte
	err     error
	key     []byte
	value   []byte
	places  []place
}

// build lays the chunk out and gives it to out. There must be a span.
func (b *builder) build(chunk, first, written uint64, out chunkWriter) (*zone, error) {
	l := &chunkLayout{builder: b, out: out, zone: &zone{
		chunk: chunk, first: first, written: written, spans: uint32(len(b.rows)), traces: uint32(len(b.traces)),
		minStart: math.MaxUint64, minDuration: math.MaxUint64,
	}}
	b.sort()
	b.findCalls()
	l.spanColumns()
	l.traceColumns()
	l.callColumns()
	l.blocks()
	groups, raw := encodeGroups(b.groups)
	l.zone.uncompressed = max(l.zone.uncompressed, uint64(raw))
	l.part(partGroups, 0, groups)
	for i, f := range l.filters {
		l.part(partFilters, uint32(i), f)
	}
	l.part(partNames, 0, b.names.append(nil))
	for i, c := range l.cols {
		if len(c.b) > 0 {
			l.part(partColumn, uint32(i), c.b)
		}
	}
	l.part(partZone, 0, l.zone.append(nil))
	return l.zone, l.err
}

func (l *chunkLayout) put(key, value []byte) {
	l.zone.bytes += uint64(len(key) + len(value))
	if l.err == nil {
		l.err = l.out.put(key, value)
	}
}

func (l *chunkLayout) part(part byte, n uint32, value []byte) {
	l.put(partKey(l.zone.chunk, part, n), value)
}

// sort fills order: the rows by trace, traces and their spans in the order in
// which they came.
func (b *builder) sort() {
	next := make([]int32, len(b.traces))
	at := int32(0)
	for i := range b.traces {
		next[i] = at
		at += b.traces[i].spans
	}
	if cap(b.order) < len(b.rows) {
		b.order = make([]int32, len(b.rows))
	}
	b.order = b.order[:len(b.rows)]
	for i := range b.rows {
		t := b.rows[i].trace
		b.order[next[t]] = int32(i)
		next[t]++
	}
}

// spansOf calls f for every trace with its place in the order.
func (b *builder) spansOf(f func(trace int, first int, order []int32)) {
	first := 0
	for t := range b.traces {
		n := int(b.traces[t].spans)
		f(t, first, b.order[first:first+n])
		first += n
	}
}

func (l *chunkLayout) spanColumns() {
	z := l.zone
	for i := range l.rows {
		r := &l.rows[i]
		d := r.duration()
		z.minStart, z.maxStart = min(z.minStart, r.start), max(z.maxStart, r.start)
		z.minDuration, z.maxDuration = min(z.minDuration, d), max(z.maxDuration, d)
	}
	n := len(l.rows)
	op := newColumn(n, uint64(len(l.names.operations)-1))
	start := newColumn(n, z.maxStart-z.minStart)
	duration := newColumn(n, z.maxDuration)
	flags := newColumn(n, flagError|flagRoot)
	for i, o := range l.order {
		r := &l.rows[o]
		op.set(i, uint64(r.op))
		start.set(i, r.start-z.minStart)
		duration.set(i, r.duration())
		f := uint64(0)
		if r.failed {
			f = flagError
			z.errors++
		}
		if r.parent == 0 {
			f |= flagRoot
		}
		flags.set(i, f)
	}
	l.cols[colOperation], l.cols[colStart], l.cols[colDuration], l.cols[colFlags] = op, start, duration, flags
}

func (l *chunkLayout) traceColumns() {
	z := l.zone
	n := len(l.traces)
	from, length, top := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	var maxLength, maxTop uint64
	ids, first := column{16, make([]byte, 16*n)}, newColumn(n, uint64(len(l.rows)))
	verdicts, weights := make([]uint64, n), make([]uint64, n)
	l.spansOf(func(t, at int, order []int32) {
		row := &l.traces[t]
		copy(ids.b[16*t:], row.id[:])
		first.set(t, uint64(at))
		start, end, best := uint64(math.MaxUint64), uint64(0), 0
		for i, o := range order {
			r := &l.rows[o]
			start = min(start, r.start)
			end = max(end, r.start+r.duration())
			if b := &l.rows[order[best]]; above(r, b) {
				best = i
			}
		}
		from[t], length[t], top[t] = start-z.minStart, end-start, uint64(best)
		z.maxFrom = max(z.maxFrom, start)
		maxLength, maxTop = max(maxLength, length[t]), max(maxTop, top[t])
		verdicts[t] = uint64(indexIn(&l.names.verdicts, l.verdicts, row.verdict))
		weights[t] = uint64(indexIn(&l.names.weights, l.weights, storedWeight(row.weight)))
		z.states |= stateBit(row.verdict.state)
		if row.weight.Kept() != 0 {
			z.states |= retroBit
		}
	})
	l.cols[colTraceID], l.cols[colFirst] = ids, first
	l.cols[colFrom] = columnOf(from, z.maxFrom-z.minStart)
	l.cols[colLength] = columnOf(length, maxLength)
	l.cols[colTop] = columnOf(top, maxTop)
	l.cols[colVerdict] = columnOf(verdicts, uint64(len(l.names.verdicts)-1))
	l.cols[colWeight] = columnOf(weights, uint64(len(l.names.weights)-1))
}

// above reports whether a rather than b is the top span: roots before others,
// then the earlier one.
func above(a, b *row) bool {
	if (a.parent == 0) != (b.parent == 0) {
		return a.parent == 0
	}
	return a.start < b.start
}

func columnOf(v []uint64, top uint64) column {
	c := newColumn(len(v), top)
	for i, x := range v {
		c.set(i, x)
	}
	return c
}

// indexIn is the place of v in a list of different values, which index knows by
// value; one that is new is appended.
func indexIn[T comparable](list *[]T, index map[T]uint32, v T) uint32 {
	i, ok := index[v]
	if !ok {
		i = uint32(len(*list))
		*list = append(*list, v)
		index[v] = i
	}
	return i
}

func (l *chunkLayout) callColumns() {
	n := len(l.calls)
	l.zone.edges = uint32(n)
	edges, spans := newColumn(n, uint64(max(len(l.names.edges), 1)-1)), newColumn(n, uint64(len(l.rows)))
	for i, c := range l.calls {
		edges.set(i, uint64(c.edge))
		spans.set(i, uint64(c.span))
	}
	l.cols[colEdge], l.cols[colEdgeSpan] = edges, spans
}

// blocks writes the spans themselves, their filters, and where each trace is.
func (l *chunkLayout) blocks() {
	l.places = make([]place, len(l.traces))
	l.raw = l.raw[:0]
	l.filter.reset()
	var maxOffset, maxLength uint32
	l.spansOf(func(t, _ int, order []int32) {
		p := place{chunk: l.zone.chunk, ordinal: uint32(t), block: l.zone.blocks, offset: uint32(len(l.raw))}
		l.record(order)
		p.length = uint32(len(l.raw)) - p.offset
		l.places[t] = p
		maxOffset, maxLength = max(maxOffset, p.offset), max(maxLength, p.length)
		l.value = p.append(l.value[:0])
		l.key = append(append(l.key[:0], keyTrace), l.traces[t].id[:]...)
		l.put(binary.BigEndian.AppendUint64(l.key, l.zone.chunk), l.value)
		if len(l.raw) >= blockSize {
			l.block()
		}
	})
	if len(l.raw) > 0 {
		l.block()
	}
	n := len(l.traces)
	block, offset := newColumn(n, uint64(l.zone.blocks-1)), newColumn(n, uint64(maxOffset))
	length := newColumn(n, uint64(maxLength))
	for t, p := range l.places {
		block.set(t, uint64(p.block))
		offset.set(t, uint64(p.offset))
		length.set(t, uint64(p.length))
	}
	l.cols[colBlock], l.cols[colOffset], l.cols[colBytes] = block, offset, length
}

// record appends a trace's record to the block.
func (l *chunkLayout) record(order []int32) {
	for len(order) > 0 {
		g, n, size := l.rows[order[0]].group, 0, 0
		for n < len(order) && l.rows[order[n]].group == g {
			size += len(l.rows[order[n]].field)
			n++
		}
		l.raw = binary.AppendUvarint(l.raw, uint64(g))
		l.raw = binary.AppendUvarint(l.raw, uint64(size))
		for _, h := range l.resource[l.resourceIn[g]].hashes {
			l.filter.add(h)
		}
		for _, o := range order[:n] {
			r := &l.rows[o]
			l.raw = append(l.raw, r.field...)
			for _, h := range l.hashes[r.attrs:r.attrsEnd] {
				l.filter.add(h)
			}
		}
		order = order[n:]
	}
}

// block writes the block and begins the next.
func (l *chunkLayout) block() {
	if need := s2.MaxEncodedLen(len(l.raw)); cap(l.packed) < need {
		l.packed = make([]byte, need)
	}
	l.part(partBlock, l.zone.blocks, s2.Encode(l.packed[:cap(l.packed)], l.raw))
	for i := range l.filters {
		l.filters[i] = l.filter.appendTo(l.filters[i], i)
	}
	l.zone.blocks++
	l.zone.raw += uint64(len(l.raw))
	l.zone.uncompressed = max(l.zone.uncompressed, uint64(len(l.raw)))
	l.raw = l.raw[:0]
	l.filter.reset()
}
