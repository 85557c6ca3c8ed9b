package spans

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// Messages says what a builder gives out besides spans of requests, or in
// their place. This is the message granularity of the ChainScope paper (3.2.2,
// design choice 4): a collector can correlate messages itself.
type Messages uint8

// The values of Config.Messages.
const (
	NoMessages   Messages = iota
	WithMessages          // an event of every message besides
	OnlyMessages          // no spans: events, of which a reader makes them; semconv.RequestKind
)

// message makes a span of one message event: an instant, child of the span
// that the message belongs to.
func (b *Builder) message(o *open, ts uint64, size uint32, sent bool) {
	m := b.take()
	b.takeAttrs(m)
	sp := &m.span
	sp.TraceID, sp.Parent, sp.Resource = o.span.TraceID, o.span.ID, o.span.Resource
	sp.ID = eventID()
	sp.Kind = span.Internal
	sp.Start, sp.End = ts+b.offset, ts+b.offset
	sp.Name = semconv.MessageReceived
	if sent {
		sp.Name = semconv.MessageSent
	}
	sp.Attrs = append(sp.Attrs, span.Int(semconv.MessageBytes, int64(size)))
	if b.cfg.Messages == OnlyMessages && o.messages == 0 {
		parent := ""
		if !o.span.Parent.IsZero() {
			parent = o.span.Parent.String()
		}
		sp.TraceState = o.span.TraceState
		sp.Attrs = append(sp.Attrs,
			span.String(semconv.RequestKind, o.span.Kind.String()),
			span.String(semconv.RequestParent, parent))
	}
	o.messages++
	b.done = append(b.done, sp)
	b.owners = append(b.owners, m)
}

// ended turns the finished span of a request into the event that closes it.
func (b *Builder) ended(o *open) {
	sp := &o.span
	sp.Attrs = append(sp.Attrs,
		span.String(semconv.RequestName, sp.Name),
		span.Int(semconv.RequestMessages, int64(o.messages)))
	sp.Name, sp.Kind, sp.Start, sp.TraceState = semconv.RequestEnded, span.Internal, sp.End, ""
	sp.Parent, sp.ID = sp.ID, eventID()
}

// eventID is of an event that the kernel gave no id.
func eventID() (id span.ID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
