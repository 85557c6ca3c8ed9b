package export

import (
	"slices"
	"time"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/otlp"
)

// batch holds encoded spans in the order in which they came. One buffer for
// all resources, so that its size is what it costs.
type batch struct {
	buf   []byte
	spans []encoded
	since time.Time // when the first span came
}

// encoded is one span: batch.buf from the end of the one before.
type encoded struct {
	res *span.Resource
	end int
}

func (b *batch) add(s *span.Span) {
	b.buf = otlp.AppendSpan(b.buf, s)
	b.spans = append(b.spans, encoded{s.Resource, len(b.buf)})
}

// removeLast undoes the last add.
func (b *batch) removeLast() {
	b.spans = b.spans[:len(b.spans)-1]
	b.buf = b.buf[:b.lastStart()]
}

// moveLast moves the last span to another batch.
func (b *batch) moveLast(to *batch) {
	res := b.spans[len(b.spans)-1].res
	b.spans = b.spans[:len(b.spans)-1]
	start := b.lastStart()
	to.buf = append(to.buf, b.buf[start:]...)
	to.spans = append(to.spans, encoded{res, len(to.buf)})
	b.buf = b.buf[:start]
}

// lastStart is where the span after the last one starts.
func (b *batch) lastStart() int {
	if len(b.spans) == 0 {
		return 0
	}
	return b.spans[len(b.spans)-1].end
}

func (b *batch) reset() {
	clear(b.spans) // lets go of the resources
	b.buf, b.spans = b.buf[:0], b.spans[:0]
}

type scope struct{ name, version string }

// grouper makes a request of a batch: one ResourceSpans per resource. Its buffers are reused from batch to batch.
type grouper struct {
	index  map[*span.Resource]int
	groups []group
	out    []byte
}

type group struct {
	res  *span.Resource
	size int // of the spans
	next int // in out: where the next span goes
}

// request is an ExportTraceServiceRequest, valid until the next call.
func (g *grouper) request(b *batch, sc scope) []byte {
	if g.index == nil {
		g.index = make(map[*span.Resource]int)
	}
	clear(g.index)
	clear(g.groups)
	g.groups, g.out = g.groups[:0], g.out[:0]

	start := 0
	for _, s := range b.spans {
		g.groups[g.of(s.res)].size += s.end - start
		start = s.end
	}
	for i := range g.groups {
		gr := &g.groups[i]
		reserve := wire.SizeVarint(uint64(gr.size)) // right, unless the header makes a difference
		out, start := wire.Open(g.out, wire.TracesResourceSpans, reserve)
		out = otlp.AppendHeader(out, gr.res, sc.name, sc.version, gr.size)
		g.out = wire.Close(slices.Grow(out, gr.size)[:len(out)+gr.size], start, reserve)
		gr.next = len(g.out) - gr.size
	}
	start = 0
	for _, s := range b.spans {
		gr := &g.groups[g.index[s.res]]
		gr.next += copy(g.out[gr.next:], b.buf[start:s.end])
		start = s.end
	}

	return g.out
}

func (g *grouper) of(res *span.Resource) int {
	i, ok := g.index[res]
	if !ok {
		i = len(g.groups)
		g.index[res] = i
		g.groups = append(g.groups, group{res: res})
	}
	return i
}
