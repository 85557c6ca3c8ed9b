package lean

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime/trace"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/wire"
)

// Start holds what is known of a span when it starts, for instrumentation that must not allocate.
// It is only read, and may be reused as soon as the span has started.
type Start struct {
	Name       string
	Kind       api.SpanKind
	Time       time.Time            // zero: now
	Attributes []attribute.KeyValue // copied
	Links      []api.Link           // copied
	NewRoot    bool                 // no parent, whatever Remote and the context say
	// Remote is the parent as a propagator read it from a carrier. If it is valid it is the parent,
	// instead of the context's span, and counts as remote.
	Remote api.SpanContext
}

// Decision is the sampler's decision about a span that is about to start, and the span's identity.
// It is used once, for StartIn or DropIn of the same tracer.
type Decision struct {
	sc         api.SpanContext
	attributes []attribute.KeyValue // the sampler's
	parent     api.SpanID
	remote     bool // the parent, valid or not
	origin     parentOrigin
	result     sdktrace.SamplingDecision
	stopped    bool // the provider is shut down
}

// Recording tells whether the span is recorded: then StartIn starts it, else DropIn.
func (d *Decision) Recording() bool { return d.result != sdktrace.Drop }

// SpanContext is the identity that the span is going to have.
func (d *Decision) SpanContext() api.SpanContext { return d.sc }

// Decide gives a span its identity and asks the sampler about it. If UsesAttributes is false,
// s.Attributes may be left empty for this call and set for StartIn. ctx nil means
// context.Background().
func (t *Tracer) Decide(ctx context.Context, s *Start) (d Decision) {
	if ctx == nil {
		ctx = context.Background()
	}
	t.decide(ctx, &d, s)
	return d
}

func (t *Tracer) decide(ctx context.Context, d *Decision, s *Start) {
	p := t.p
	var parent api.SpanContext
	switch {
	case s.NewRoot:
	case s.Remote.IsValid():
		parent = s.Remote.WithRemote(true)
	default:
		parent = spanContextOf(ctx)
	}
	if p.stopped.Load() {
		d.sc, d.stopped = parent, true
		return
	}
	id, hasTrace := parent.TraceID(), parent.HasTraceID()
	flags := parent.TraceFlags()
	d.parent, d.remote = parent.SpanID(), parent.IsRemote()
	hasParent := hasTrace && d.parent.IsValid()
	if hasParent {
		d.origin = localParent
		if d.remote {
			d.origin = remoteParent
		}
	}
	if p.known == nil || p.ids != nil {
		t.ask(ctx, d, s, parent)
		return
	}
	if !hasTrace {
		id = newTraceID()
	}
	// With keep, one decision holds for all spans of a local trace: below a span that was not
	// sampled, none is.
	fated := p.keepsAll && d.origin == localParent && !flags.IsSampled()
	if !fated && p.known.sampled(id, hasParent, flags) {
		d.result = sdktrace.RecordAndSample
		flags |= api.FlagsSampled
	} else {
		if p.keepsAll {
			d.result = sdktrace.RecordOnly
		}
		flags &^= api.FlagsSampled
	}
	d.sc = api.NewSpanContext(api.SpanContextConfig{
		TraceID: id, SpanID: newSpanID(), TraceFlags: flags, TraceState: parent.TraceState(),
	})
}

// ask asks the id generator and the sampler, which see the parent in a context.
func (t *Tracer) ask(ctx context.Context, d *Decision, s *Start, parent api.SpanContext) {
	p := t.p
	if s.NewRoot || s.Remote.IsValid() {
		lent := lendParent(ctx, parent)
		defer lent.giveBack()
		ctx = lent
	}
	id := parent.TraceID()
	var span api.SpanID
	switch hasTrace := id.IsValid(); {
	case p.ids != nil && hasTrace:
		span = p.ids.NewSpanID(ctx, id)
	case p.ids != nil:
		id, span = p.ids.NewIDs(ctx)
	case hasTrace:
		span = newSpanID()
	default:
		id, span = newTraceID(), newSpanID()
	}
	res := p.sampler.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: id, Name: s.Name, Kind: s.Kind, Attributes: s.Attributes, Links: s.Links,
	})
	d.attributes = res.Attributes
	flags := parent.TraceFlags() &^ api.FlagsSampled
	switch res.Decision {
	case sdktrace.RecordAndSample:
		d.result = res.Decision
		flags |= api.FlagsSampled
	case sdktrace.RecordOnly:
		d.result = res.Decision
	}
	d.sc = api.NewSpanContext(api.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: flags, TraceState: res.Tracestate,
	})
}

// StartIn starts a recording span in memory of the caller, so that one allocation can hold the
// span and what belongs to it. mem is zero, and never used for another span. The context that is
// returned carries the span and lives in mem, too. d is Decide's answer for s.
//
//nolint:revive // the memory comes first, as the destination does in copy and append
func (t *Tracer) StartIn(mem *Span, ctx context.Context, s *Start, d *Decision) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	p := t.p
	mem.origin, mem.sc = &t.origin, d.sc
	mem.ctx.span = mem
	if !d.Recording() {
		mem.ctx.Context = ctx
		return &mem.ctx
	}
	r := p.records.Get().(*record)
	r.shard.started[d.origin][d.result].Add(1)
	if trace.IsEnabled() {
		ctx, r.task = trace.NewTask(ctx, s.Name)
	}
	mem.ctx.Context = ctx
	r.name = s.Name
	r.startMono = p.clock.monotonic()
	if s.Time.IsZero() {
		r.startWall = p.clock.wall(r.startMono)
	} else {
		r.startWall, r.given = s.Time.UnixNano(), s.Time
	}
	r.writeHead(d, s.Kind)
	for i := range s.Links {
		r.addLink(p, &s.Links[i])
	}
	for i := range d.attributes {
		r.setAttribute(p, &d.attributes[i])
	}
	for i := range s.Attributes {
		r.setAttribute(p, &s.Attributes[i])
	}
	if p.keeper != nil {
		mem.local = p.keeper.enter(ctx, d, r.startMono)
	}
	mem.rec = r
	return &mem.ctx
}

// DropIn starts a span that is not recorded, in memory of the caller: it only carries its identity
// on. mem is zero, and never used for another span.
//
//nolint:revive // as StartIn
func (t *Tracer) DropIn(mem *Unrecorded, ctx context.Context, d *Decision) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	mem.origin, mem.sc = &t.origin, d.sc
	mem.ctx.Context, mem.ctx.span = ctx, mem
	if !d.stopped {
		p := t.p
		sh := p.near.Get().(*shard)
		sh.started[d.origin][sdktrace.Drop].Add(1)
		p.near.Put(sh)
	}
	return &mem.ctx
}

// writeHead writes the fields that are known at the start of a span and never change.
func (r *record) writeHead(d *Decision, kind api.SpanKind) {
	trace, span := d.sc.TraceID(), d.sc.SpanID()
	b := wire.AppendBytes(r.buf, wire.SpanTraceID, trace[:])
	b = wire.AppendBytes(b, wire.SpanID, span[:])
	if d.parent.IsValid() {
		b = wire.AppendBytes(b, wire.SpanParentID, d.parent[:])
	}
	// The numbers of trace.SpanKind are OTLP's.
	kind = api.ValidateSpanKind(kind)
	b = append(b, wire.SpanKind, byte(kind))
	r.buf = wire.AppendFixed64(b, wire.SpanStart, notNegative(r.startWall))
	r.remote, r.localRoot, r.kind = d.remote, d.origin != localParent, kind
}

// notNegative is a time as OTLP has it: unsigned. Times before 1970 become 0, as the official
// exporter does it.
func notNegative(ns int64) uint64 { return uint64(max(0, ns)) }

// Random ids, as the SDK makes them: from Go's ChaCha8 source, which needs no lock.

func newTraceID() (id api.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id api.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
