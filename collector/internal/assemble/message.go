package assemble

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// maxMessages is how many messages a span gets as span events; further ones are
// counted as its dropped events. OpenTelemetry's SDKs have the same limit.
const maxMessages = 128

// Span.flags of OTLP, as in span/otlp.
const (
	flagSampled     = 0x001
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

// nameOpen names a request's span if its closing event, which has the name, is missing.
const nameOpen = "request"

// buildSpan makes the span of a request from its first event (semconv.RequestKind).
// An event that cannot be read is left as it is; its parent is then missing.
func (t *trace) buildSpan(first int32) {
	ev := t.items[first]
	if t.find(ev.parent) != none {
		return
	}
	attrs := ev.span.Attributes()
	x := item{origin: ev.origin, id: ev.parent, up: none, twin: none, calls: none, flags: built, request: int32(len(t.requests))}
	kind, _ := attrs.Get(semconv.RequestKind)
	switch kind.AsString() {
	case span.Server.String():
		x.kind = kindServer
	case span.Client.String():
		x.kind = kindClient
	default:
		return
	}
	var id [8]byte
	if v, ok := attrs.Get(semconv.RequestParent); ok && v.AsString() != "" {
		text := v.AsString()
		if len(text) != 16 {
			return
		}
		if _, err := hex.Decode(id[:], []byte(text)); err != nil {
			return
		}
		x.parent = binary.BigEndian.Uint64(id[:])
	}
	x.span = ptrace.NewSpan()
	x.span.SetTraceID(t.id)
	x.span.SetSpanID(ev.span.ParentSpanID())
	x.span.SetParentSpanID(id)
	x.span.SetKind(ptrace.SpanKind(x.kind))
	x.span.SetName(nameOpen)
	x.span.TraceState().FromRaw(ev.span.TraceState().AsRaw())
	x.span.SetStartTimestamp(ev.span.StartTimestamp())
	x.span.SetEndTimestamp(ev.span.StartTimestamp())
	x.span.SetFlags(flagSampled | flagHasIsRemote)
	if x.kind == kindServer && x.parent != 0 {
		x.span.SetFlags(flagSampled | flagHasIsRemote | flagIsRemote)
	}
	t.requests = append(t.requests, request{item: t.append(&x), ended: none})
}

// closed reports whether all events have arrived of each request that is made from
// events. Parents must have been found.
func (t *trace) closed() bool {
	for i := range t.requests {
		r := &t.requests[i]
		r.ended, r.got, r.want = none, 0, 0
	}
	for i := range t.items {
		x := &t.items[i]
		if x.flags&(message|requestEnded) == 0 || x.up == none || t.items[x.up].flags&built == 0 {
			continue
		}
		owner := &t.items[x.up]
		r := &t.requests[owner.request]
		if x.flags&message != 0 {
			r.got++
			continue
		}
		r.ended = int32(i)
		if x.flags&onConnection != 0 {
			t.sight(x.up, r.ended) // it came before the request's first event
		}
		var e ends
		var as item // the event read as the span that it completes
		attrs := x.span.Attributes()
		if v, ok := attrs.Get(semconv.RequestMessages); ok {
			r.want = int(v.Int())
		}
		as.inspectAs(x.span, ptrace.SpanKind(owner.kind), &e)
		owner.flags |= as.flags & (wantsServer | unanswered)
		owner.calls = as.calls
		if as.flags&(keepSDK|keepTare) != 0 && owner.flags&(keepSDK|keepTare) == 0 {
			t.doubles++
		}
		owner.sdk = as.sdk
		owner.flags |= as.flags & (keepSDK | keepTare)
	}
	for i := range t.requests {
		if r := &t.requests[i]; r.ended == none || r.got < r.want {
			return false
		}
	}
	return true
}

// fold completes the spans of requests and then merges, drops or keeps the message
// events, by Options.Messages.
func (s *shard) fold(t *trace) {
	t.closed()
	s.order = s.order[:0]
	for i := range t.items {
		if x := &t.items[i]; x.flags&message != 0 {
			s.order = append(s.order, int32(i))
		}
	}
	slices.SortStableFunc(s.order, func(a, b int32) int {
		x, y := &t.items[a], &t.items[b]
		if c := cmp.Compare(x.up, y.up); c != 0 {
			return c
		}
		if c := cmp.Compare(x.span.StartTimestamp(), y.span.StartTimestamp()); c != 0 {
			return c // both are of one host's clock
		}
		// At once: the request's first event before the others, whatever order they came in.
		return cmp.Compare(y.flags&requestBegun, x.flags&requestBegun)
	})
	for _, i := range s.order {
		x := &t.items[i]
		if x.up != none && t.items[x.up].flags&built != 0 {
			// Without a closing event, a request ends with its last message.
			if o := t.items[x.up].span; o.EndTimestamp() < x.span.StartTimestamp() {
				o.SetEndTimestamp(x.span.StartTimestamp())
			}
		}
	}
	for i := range t.requests {
		if r := &t.requests[i]; r.ended != none {
			t.items[r.item].end(&t.items[r.ended])
			s.stats.Merged++
		}
	}
	switch s.a.opts.Messages {
	case MergeMessages:
		s.merge(t)
	case DropMessages:
		for _, i := range s.order {
			t.items[i].flags |= folded
			s.stats.Dropped[DropMessage]++
		}
	case KeepMessages:
		for _, i := range s.order {
			if x := &t.items[i]; x.flags&requestBegun != 0 && x.up != none && t.items[x.up].flags&built != 0 {
				attrs := x.span.Attributes()
				attrs.Remove(semconv.RequestKind)
				attrs.Remove(semconv.RequestParent)
				x.span.TraceState().FromRaw("")
			}
		}
	}
}

// end completes the span of a request from its closing event.
func (x *item) end(by *item) {
	attrs := by.span.Attributes()
	if v, ok := attrs.Get(semconv.RequestName); ok {
		x.span.SetName(v.AsString())
	}
	x.span.SetEndTimestamp(by.span.EndTimestamp())
	by.span.Status().MoveTo(x.span.Status())
	attrs.RemoveIf(func(k string, _ pcommon.Value) bool {
		return k == semconv.RequestName || k == semconv.RequestMessages
	})
	attrs.MoveTo(x.span.Attributes())
	if x.flags&joined != 0 {
		x.linkedBySequence()
	}
	by.flags |= folded
	x.flags |= by.flags & marked
}

// merge turns message events into span events. s.order has them by owner and time;
// consecutive ones of one direction are the pieces of one message.
func (s *shard) merge(t *trace) {
	for i := 0; i < len(s.order); {
		first := &t.items[s.order[i]]
		if first.up == none || t.items[first.up].flags&(message|requestEnded) != 0 {
			i++ // the span that it belongs to is missing: it stays a span
			continue
		}
		owner := &t.items[first.up]
		direction, begin, end := first.span.Name(), first.span.StartTimestamp(), first.span.EndTimestamp()
		var bytes, pieces int64
		for i < len(s.order) {
			x := &t.items[s.order[i]]
			if x.up != first.up || x.span.Name() != direction {
				break
			}
			if v, ok := x.span.Attributes().Get(semconv.MessageBytes); ok {
				bytes += v.Int()
			}
			pieces++
			end = max(end, x.span.EndTimestamp())
			x.flags |= folded
			s.stats.Merged++
			i++
		}
		if owner.span.Events().Len() >= maxMessages {
			owner.span.SetDroppedEventsCount(owner.span.DroppedEventsCount() + 1)
			continue
		}
		ev := owner.span.Events().AppendEmpty()
		ev.SetName(direction)
		ev.SetTimestamp(begin)
		attrs := ev.Attributes()
		attrs.EnsureCapacity(3)
		attrs.PutInt(semconv.MessageBytes, bytes)
		attrs.PutInt(semconv.MessagePieces, pieces)
		if pieces > 1 {
			attrs.PutInt(semconv.MessageDuration, int64(end-begin))
		}
	}
}
