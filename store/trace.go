package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/wire"
)

// Trace returns all spans of a trace that are stored, in the order in which
// they came, with one ResourceSpans for every distinct resource. It returns
// ErrNotFound if there are none. If it returns ErrCorrupt, a part of the trace
// is damaged, and the spans are those of it that can be read, perhaps none.
func (s *Store) Trace(ctx context.Context, id pcommon.TraceID) (ptrace.Traces, error) {
	f, err := s.Find(ctx, id)
	return f.Traces, err
}

// Found is what of a trace is stored and may be seen.
type Found struct {
	Traces ptrace.Traces
	// Hidden are the ids of spans that are left out since the reader's [Scope] does not allow their service, with
	// those of their parents; nil: none is. HiddenSpans is how many spans these are.
	Hidden      map[pcommon.SpanID]pcommon.SpanID
	HiddenSpans int
	Cut         Cut
	children    map[pcommon.SpanID]bool // parents of hidden spans
}

// Parent reports whether the span's parent is left out.
func (f *Found) Parent(s ptrace.Span) bool {
	_, hidden := f.Hidden[s.ParentSpanID()]
	return hidden
}

// Child reports whether a child of the span is left out.
func (f *Found) Child(s ptrace.Span) bool {
	if f.children == nil && f.Hidden != nil {
		f.children = map[pcommon.SpanID]bool{}
		for _, parent := range f.Hidden {
			f.children[parent] = true
		}
	}
	return f.children[s.SpanID()]
}

// Find is Trace, with how much of it is left out. A trace of which the reader may see no span is not found.
func (s *Store) Find(ctx context.Context, id pcommon.TraceID) (f Found, err error) {
	return s.FindPart(ctx, id, Part{exact: true})
}

// FindPart is Find for a part of what is stored of each span: nothing that is longer than it needs to be ([Cut]).
func (s *Store) FindPart(ctx context.Context, id pcommon.TraceID, part Part) (f Found, err error) {
	err = s.read(ctx, func(v *view) (err error) {
		f, err = v.trace(ctx, id, part)
		return err
	})
	if err != nil && !errors.Is(err, ErrCorrupt) || f.Traces == (ptrace.Traces{}) {
		f = Found{Traces: ptrace.NewTraces()}
	}
	if scope := ScopeOf(ctx); scope != nil {
		scope.clean(f.Traces)
	}
	return f, err
}

func (v *view) trace(ctx context.Context, id pcommon.TraceID, part Part) (f Found, err error) {
	places, err := v.storedPlaces(ctx, id)
	if err != nil {
		return f, err
	}
	if len(places) == 0 {
		return f, ErrNotFound
	}
	budget, fits, err := v.askFor(places)
	if err != nil {
		return f, err
	}
	trim := newTrimmer(part, budget, fits, &f.Cut)
	tree := spanTree{}
	hide := func(span []byte) {
		if f.Hidden == nil {
			f.Hidden = map[pcommon.SpanID]pcommon.SpanID{}
		}
		id, parent := idsOf(span)
		f.Hidden[id] = parent
		f.HiddenSpans++
	}
	var damaged error
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		err := v.spansOf(p, &tree, trim, hide)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrCorrupt) {
			return f, err
		}
		z := v.zoneOf(p.chunk)
		if z == nil && !v.s.damage.has(p.chunk) {
			continue // retention removed a chunk that was damaged, and could not remove this
		}
		if damaged == nil {
			damaged = err
		}
		if z != nil {
			_ = v.skip(z, err) // which only notes it
		}
	}
	if len(tree.resources) == 0 && damaged == nil {
		return f, ErrNotFound
	}
	var m ptrace.ProtoUnmarshaler
	f.Traces, err = m.UnmarshalTraces(tree.encode())
	if err != nil {
		return Found{}, corrupt("trace %s: %v", id, err)
	}
	return f, damaged
}

// askFor asks for the memory that the trace takes, and returns how much of its spans may be read: bytes, and spanCost
// for each. fits: these are all.
func (v *view) askFor(places []place) (budget int64, fits bool, err error) {
	var spans, block int64
	for _, p := range places {
		spans += int64(p.length)
	}
	if v.ask == nil {
		return math.MaxInt64, true, nil
	}
	if spans <= largePart {
		return freeBytes, true, nil
	}
	for _, p := range places {
		n, size, err := v.sizeOf(p)
		if err != nil && !errors.Is(err, ErrCorrupt) { // that comes again
			return 0, false, err
		}
		spans += spanCost * n
		block = max(block, size)
	}
	if block <= largePart {
		block = 0
	}
	if block += v.sizes[holdsGroups]; spans+block <= freeBytes {
		return freeBytes, true, nil
	}
	v.granted = block
	budget, err = v.ask(spans, block)
	return budget, budget >= spans, err
}

// spanCost is what a span takes beside its bytes, in bytes: it takes more memory for each of them the shorter it is.
const spanCost = 150

// sizeOf returns how many spans are at the place, as they are stored, and the size of their block, in bytes. It reads
// their resources, too.
func (v *view) sizeOf(p place) (spans, block int64, err error) {
	c, err := v.stored(p.chunk, nil)
	if err != nil {
		return 0, 0, err
	}
	first, err := c.column(colFirst)
	if err != nil || p.ordinal >= c.zone.traces {
		return 0, 0, err
	}
	at, next := c.spansOf(first, int(p.ordinal))
	if _, err := c.resources(); err != nil {
		return 0, 0, err
	}
	block, err = c.blockSize(p.block)
	return int64(next - at), block, err
}

// zoneOf returns the bounds of a chunk; nil if there is no such chunk.
func (v *view) zoneOf(chunk uint64) *zone {
	for _, z := range v.chunks {
		if z.chunk == chunk {
			return z
		}
	}
	return nil
}

// spansOf adds the spans at a place, and calls hide with those that the reader's scope does not allow.
func (v *view) spansOf(p place, tree *spanTree, trim *trimmer, hide func(span []byte)) error {
	c, err := v.stored(p.chunk, nil)
	if err != nil {
		return err
	}
	groups, record, err := c.spansAt(p)
	if err != nil {
		return err
	}
	return eachRun(record, groups, func(g uint32, spans []byte) error {
		if v.lens != nil {
			spans, err = v.lens.see(c.zone, groups[g].resource, spans, hide)
			if err != nil || len(spans) == 0 {
				return err
			}
		}
		spans, err := trim.run(spans)
		if err != nil || len(spans) == 0 {
			return err
		}
		return tree.add(groups[g], spans, trim)
	})
}

// see returns those spans of a run that have not expired, none if the scope does not allow the resource.
func (l *lens) see(z *zone, resource, run []byte, hide func(span []byte)) ([]byte, error) {
	id, err := identityOf(resource)
	if err != nil {
		return nil, err
	}
	limit := l.limit(id.service)
	allowed := l.scope == nil || l.scope.Sees(id.service, id.namespace, id.environment)
	if allowed && limit <= min(z.minStart, z.written) {
		return run, nil
	}
	var seen []byte
	err = eachSpan(run, func(span, whole []byte) error {
		switch {
		case min(startOf(span), z.written) < limit:
		case allowed:
			seen = append(seen, whole...)
		default:
			hide(span)
		}
		return nil
	})
	return seen, err
}

// startOf is the start of an encoded span, ns.
func startOf(span []byte) (start uint64) {
	_ = eachField(span, func(tag, v uint64, _, _ []byte) error { // the bytes have been walked before
		if tag == wire.SpanStart {
			start = v
		}
		return nil
	})
	return start
}

// idsOf are the id of an encoded span, and its parent's.
func idsOf(span []byte) (id, parent pcommon.SpanID) {
	_ = eachField(span, func(tag, _ uint64, content, _ []byte) error { // likewise
		switch tag {
		case wire.SpanID:
			copy(id[:], content)
		case wire.SpanParentID:
			copy(parent[:], content)
		}
		return nil
	})
	return id, parent
}

// spanTree puts groups of spans together again.
type spanTree struct {
	resources []*resourceTree
	known     map[uint64][]*resourceTree // by hash: a trace may have many, and long ones
}

var treeSeed = maphash.MakeSeed()

type resourceTree struct {
	stored   []byte
	resource []byte // trimmed
	scopes   []*scopeTree
}

type scopeTree struct {
	stored []byte
	scope  []byte // trimmed
	spans  []byte
}

func (t *spanTree) add(g group, spans []byte, trim *trimmer) error {
	var r *resourceTree
	hash := maphash.Bytes(treeSeed, g.resource)
	for _, have := range t.known[hash] {
		if bytes.Equal(have.stored, g.resource) {
			r = have
		}
	}
	if r == nil {
		resource, err := trim.resource(g.resource)
		if err != nil {
			return err
		}
		r = &resourceTree{stored: g.resource, resource: resource}
		t.resources = append(t.resources, r)
		if t.known == nil {
			t.known = map[uint64][]*resourceTree{}
		}
		t.known[hash] = append(t.known[hash], r)
	}
	for _, s := range r.scopes {
		if bytes.Equal(s.stored, g.scope) {
			s.spans = append(s.spans, spans...)
			return nil
		}
	}
	scope, err := trim.scope(g.scope)
	r.scopes = append(r.scopes, &scopeTree{g.scope, scope, append([]byte(nil), spans...)})
	return err
}

// encode returns the TracesData.
func (t *spanTree) encode() []byte {
	var data []byte
	for _, r := range t.resources {
		rs := append([]byte(nil), r.resource...)
		for _, s := range r.scopes {
			rs = wire.AppendHead(rs, wire.ResourceSpansScope, len(s.scope)+len(s.spans))
			rs = append(append(rs, s.scope...), s.spans...)
		}
		data = wire.AppendBytes(data, wire.TracesResourceSpans, rs)
	}
	return data
}
