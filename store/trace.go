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
	var td ptrace.Traces
	err := s.read(func(v *view) (err error) {
		td, err = v.trace(ctx, id)
		return err
	})
	if err != nil && !errors.Is(err, ErrCorrupt) || td == (ptrace.Traces{}) {
		td = ptrace.NewTraces()
	}
	return td, err
}

func (v *view) trace(ctx context.Context, id pcommon.TraceID) (td ptrace.Traces, err error) {
	places, err := v.places(ctx, id)
	if err != nil {
		return td, err
	}
	if len(places) == 0 {
		return td, ErrNotFound
	}
	if err := ask(ctx, places); err != nil {
		return td, err
	}
	var tree spanTree
	var damaged error
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return td, err
		}
		err := v.spansOf(p, &tree)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrCorrupt) {
			return td, err
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
		return td, ErrNotFound
	}
	var m ptrace.ProtoUnmarshaler
	td, err = m.UnmarshalTraces(tree.encode())
	if err != nil {
		return ptrace.NewTraces(), corrupt("trace %s: %v", id, err)
	}
	return td, damaged
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

// spansOf adds the spans at a place.
func (v *view) spansOf(p place, tree *spanTree) error {
	c, err := v.chunk(p.chunk, nil)
	if err != nil {
		return err
	}
	groups, record, err := c.spansAt(p)
	if err != nil {
		return err
	}
	return eachRun(record, groups, func(g uint32, spans []byte) error {
		tree.add(groups[g], spans)
		return nil
	})
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
