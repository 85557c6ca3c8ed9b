package store

import (
	"bytes"
	"context"
	"errors"

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
	err = s.read(ctx, func(v *view) (err error) {
		f, err = v.trace(ctx, id)
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

func (v *view) trace(ctx context.Context, id pcommon.TraceID) (f Found, err error) {
	places, err := v.storedPlaces(ctx, id)
	if err != nil {
		return f, err
	}
	if len(places) == 0 {
		return f, ErrNotFound
	}
	if err := ask(ctx, places); err != nil {
		return f, err
	}
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
		err := v.spansOf(p, &tree, hide)
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
	if len(tree) == 0 && damaged == nil {
		return f, ErrNotFound
	}
	var m ptrace.ProtoUnmarshaler
	f.Traces, err = m.UnmarshalTraces(tree.encode())
	if err != nil {
		return Found{}, corrupt("trace %s: %v", id, err)
	}
	return f, damaged
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
func (v *view) spansOf(p place, tree *spanTree, hide func(span []byte)) error {
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
		tree.add(groups[g], spans)
		return nil
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
type spanTree []*resourceTree

type resourceTree struct {
	resource []byte
	scopes   []*scopeTree
}

type scopeTree struct {
	scope []byte
	spans []byte
}

func (t *spanTree) add(g group, spans []byte) {
	var r *resourceTree
	for _, have := range *t {
		if bytes.Equal(have.resource, g.resource) {
			r = have
		}
	}
	if r == nil {
		r = &resourceTree{resource: g.resource}
		*t = append(*t, r)
	}
	for _, s := range r.scopes {
		if bytes.Equal(s.scope, g.scope) {
			s.spans = append(s.spans, spans...)
			return
		}
	}
	r.scopes = append(r.scopes, &scopeTree{g.scope, append([]byte(nil), spans...)})
}

// encode returns the TracesData.
func (t spanTree) encode() []byte {
	var data []byte
	for _, r := range t {
		rs := append([]byte(nil), r.resource...)
		for _, s := range r.scopes {
			rs = wire.AppendHead(rs, wire.ResourceSpansScope, len(s.scope)+len(s.spans))
			rs = append(append(rs, s.scope...), s.spans...)
		}
		data = wire.AppendBytes(data, wire.TracesResourceSpans, rs)
	}
	return data
}
