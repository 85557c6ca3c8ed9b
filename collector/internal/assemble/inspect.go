package assemble

import (
	"bytes"
	"encoding/binary"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// item is a span that waits for its trace, with what was read from it.
type item struct {
	span   ptrace.Span
	origin *origin
	id     uint64
	parent uint64 // 0: a root
	up     int32  // index of the parent's item once found, else none
	twin   int32  // index of the item that shares the id (client and server of one call), else none
	// request is the index in trace.requests of a span made from its events (built).
	request int32
	// calls is how many client spans a server span says it caused (semconv.Calls),
	// else none; below is how many of them have arrived.
	calls, below int32
	sdk          uint64 // the span that an SDK in the service has beside it, or around it; 0: not known
	flags        flags
	kind         uint8 // OTLP's
}

// none is the index of no item.
const none = -1

type flags uint16

const (
	wantsServer  flags = 1 << iota // a client span whose peer is traced and answered
	served                         // a client span whose server span has arrived
	unanswered                     // a client span that failed without any response
	message                        // a message event
	requestBegun                   // a message event with the kind and parent of its request
	requestEnded                   // the closing event of a request without a span
	built                          // a request's span, made from its events
	marked                         // carries keys that only this package may set
	onConnection                   // may be joined by connection and stream offset; a closing event: has them for its request
	conflicting                    // has the id of another span
	folded                         // became part of another span
	visited                        // is known to lead up to the root
	joined                         // its parent was found by its stream offset
	keepSDK                        // of this span and the SDK's of the same call, the SDK's is to be kept
	keepTare                       // this one is
	cut                            // its service did not link a call, or another one not this request
)

// ends are the two ends of a connection, as far as a span names them, and the offset
// in the stream at which the request begins, with its sequence number.
type ends struct {
	peer, local, server             string
	peerPort, localPort, serverPort int64
	offset, sequence                int64
	hasOffset                       bool
}

// Estimated memory of a span beside its strings: the span itself, and each
// attribute, event and link as pdata holds them, with Go's overhead; rather too
// high than too low.
const (
	spanBytes  = 400
	attrBytes  = 72
	eventBytes = 160
	linkBytes  = 160
)

// inspect reads a span once and returns its estimated memory in bytes.
func (x *item) inspect(sp ptrace.Span, e *ends) int {
	id, parent := sp.SpanID(), sp.ParentSpanID()
	x.span = sp
	x.id, x.parent = binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(parent[:])
	x.up, x.twin, x.below = none, none, 0
	return x.inspectAs(sp, sp.Kind(), e)
}

// inspectAs reads sp as if it were a span of the given kind.
func (x *item) inspectAs(sp ptrace.Span, kindOf ptrace.SpanKind, e *ends) int {
	x.kind = uint8(kindOf)
	x.flags, x.calls, x.sdk = 0, none, 0
	size := spanBytes + len(sp.Name())
	var response, sized, begun, ended, traced bool
	attrs := sp.Attributes()
	for k, v := range attrs.All() {
		size += attrBytes + len(k)
		kind := v.Type()
		switch kind {
		case pcommon.ValueTypeStr:
			size += len(v.Str())
		case pcommon.ValueTypeInt, pcommon.ValueTypeBool, pcommon.ValueTypeDouble:
		default:
			size += sizeOf(v)
		}
		switch k {
		case semconv.PeerTraced:
			traced = kind == pcommon.ValueTypeBool && v.Bool()
		case semconv.Calls:
			if n := v.Int(); kindOf == ptrace.SpanKindServer && kind == pcommon.ValueTypeInt && n >= 0 && n <= math.MaxInt32 {
				x.calls = int32(n)
			}
		case semconv.StreamOffset:
			e.offset, e.hasOffset = v.Int(), kind == pcommon.ValueTypeInt
		case semconv.StreamSequence:
			e.sequence = v.Int()
		case semconv.MessageBytes:
			sized = true
		case semconv.RequestKind:
			begun = true
		case semconv.RequestName:
			ended = true
		case semconv.SDKSpan:
			x.sdk = hexID(v.Str())
		case semconv.SDKKeep:
			switch v.Str() {
			case semconv.KeepSDK:
				x.flags |= keepSDK
			case semconv.KeepTare:
				x.flags |= keepTare
			}
		case semconv.TraceState, semconv.TraceReason, semconv.Late:
			x.flags |= marked
		case semconv.LinkingReason, semconv.Behind:
			x.flags |= cut
		case "http.response.status_code", "db.response.status_code":
			response = true
		case "network.peer.address":
			e.peer = v.Str()
		case "network.peer.port":
			e.peerPort = v.Int()
		case "network.local.address":
			e.local = v.Str()
		case "network.local.port":
			e.localPort = v.Int()
		case "server.address":
			e.server = v.Str()
		case "server.port":
			e.serverPort = v.Int()
		}
	}
	if n := sp.Events().Len(); n > 0 {
		size += n * eventBytes
		for _, ev := range sp.Events().All() {
			size += len(ev.Name()) + sizeOfMap(ev.Attributes())
		}
	}
	if n := sp.Links().Len(); n > 0 {
		size += n * linkBytes
		for _, l := range sp.Links().All() {
			size += sizeOfMap(l.Attributes())
		}
	}
	switch kindOf {
	case ptrace.SpanKindClient:
		if !response && sp.Status().Code() == ptrace.StatusCodeError {
			x.flags |= unanswered
		} else if traced {
			x.flags |= wantsServer
		}
	case ptrace.SpanKindInternal:
		switch name := sp.Name(); {
		case x.parent == 0:
		case sized && (name == semconv.MessageReceived || name == semconv.MessageSent):
			x.flags |= message
			if begun {
				x.flags |= requestBegun
			}
		case ended && name == semconv.RequestEnded:
			x.flags |= requestEnded
		}
	}
	return size
}

func sizeOfMap(m pcommon.Map) (n int) {
	for k, v := range m.All() {
		n += attrBytes + len(k) + sizeOf(v)
	}
	return n
}

func sizeOf(v pcommon.Value) (n int) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return len(v.Str())
	case pcommon.ValueTypeBytes:
		return v.Bytes().Len()
	case pcommon.ValueTypeMap:
		return sizeOfMap(v.Map())
	case pcommon.ValueTypeSlice:
		s := v.Slice()
		for i := range s.Len() {
			n += attrBytes + sizeOf(s.At(i))
		}
	}
	return n
}

// silent reports whether the span does not say how many spans it has below it, so
// that more may come. A client span with a parent is not silent: wantsServer says
// whether a server span is below it. Nothing is below a message event.
func (x *item) silent() bool {
	switch {
	case x.flags&(message|requestEnded) != 0:
		return false
	case x.kind == kindServer:
		return x.calls == none
	}
	return x.kind != kindClient || x.parent == 0
}

// is reports whether two spans with the same id are one span that was sent twice.
func (x *item) is(other *item) bool {
	a, b := x.span, other.span
	return x.kind == other.kind && x.parent == other.parent && a.Name() == b.Name() &&
		a.StartTimestamp() == b.StartTimestamp() && a.EndTimestamp() == b.EndTimestamp() &&
		a.Status().Code() == b.Status().Code() && a.Status().Message() == b.Status().Message() &&
		a.TraceState().AsRaw() == b.TraceState().AsRaw() &&
		a.Events().Len() == b.Events().Len() && a.Links().Len() == b.Links().Len() &&
		x.origin.resource.key == other.origin.resource.key &&
		equal(a.Attributes(), b.Attributes())
}

// equal compares attributes in any order, because some receivers build them from Go
// maps; more than 64 are compared in the given order, since the other way is quadratic.
func equal(a, b pcommon.Map) bool {
	if a.Len() <= 64 {
		return a.Equal(b)
	}
	return bytes.Equal(appendMap(nil, a), appendMap(nil, b))
}
