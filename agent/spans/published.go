package spans

import (
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// sampled is the W3C trace flag of a trace whose spans are exported.
const sampled = 1

// published takes which span of an SDK was current when a call was sent, or a response began.
func (b *Builder) published(p *bpf.Published) {
	o := b.open.find(p.SpanId)
	if o == nil {
		b.cfg.Lost(LostOrphan, 1)
		return
	}
	if l := (span.Link{TraceID: p.SdkTrace, ID: p.SdkSpan, Flags: p.Flags}); !l.TraceID.IsZero() && !l.ID.IsZero() {
		o.span.Link = l
	}
}

// describePublished names the span of an SDK.
func (b *Builder) describePublished(o *open) {
	sp := &o.span
	if sp.Link.ID.IsZero() {
		return
	}
	sp.Attrs = append(sp.Attrs,
		span.String(semconv.SDKTrace, sp.Link.TraceID.String()),
		span.String(semconv.SDKSpan, sp.Link.ID.String()))
	if sp.Link.TraceID == sp.TraceID && sp.Link.Flags&sampled != 0 {
		texts(sp, semconv.SDKKeep, b.cfg.Keep(o.service))
	}
}
