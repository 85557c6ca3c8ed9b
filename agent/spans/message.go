package spans

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/tare-trace/tare/span"
)

// message makes a span of one message event: an instant, child of the span
// that the message belongs to. This is the message granularity of the
// ChainScope paper (3.2.2, design choice 4): a collector can correlate
// messages itself.
func (b *Builder) message(o *open, ts uint64, size uint32, sent bool) {
	m := b.take()
	sp := &m.span
	sp.TraceID, sp.Parent, sp.Resource = o.span.TraceID, o.span.ID, o.span.Resource
	binary.NativeEndian.PutUint64(sp.ID[:], rand.Uint64()|1)
	sp.Kind = span.Internal
	sp.Start, sp.End = ts+b.offset, ts+b.offset
	sp.Name = "received"
	if sent {
		sp.Name = "sent"
	}
	sp.Attrs = append(sp.Attrs, span.Int("tare.message.bytes", int64(size)))
	b.done = append(b.done, sp)
	b.owners = append(b.owners, m)
}
