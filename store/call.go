package store

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/span/semconv"
	spantext "github.com/tare-trace/tare/span/text"
)

// call is one call between services: an edge, and the span that measures it,
// as its place in the order.
type call struct {
	edge uint32
	span int32
}

// smallTrace is where looking through a trace for a span id is cheaper than a map.
const smallTrace = 12

// findCalls finds the calls among the spans that are here:
//
//   - A server or consumer span whose parent is of another service was called
//     by it. The parent measures the call if it is a client or producer span,
//     so that the time on the network is in it, and the span itself if not.
//     A client span with the server span's id counts as its parent: they are the
//     two sides of a call (Zipkin's shared ids).
//   - A client or producer span that nothing answered went to a peer that is
//     not traced, if it names one. If the peer showed that it is traced, its
//     span is missing, and there is no call to somebody untraced. The same is
//     assumed if the span is late: what answered it has been seen before.
//   - A client or producer span of which an earlier chunk knew whom it called, and whose
//     answer has been removed since, called them still.
//   - A server span that begins a trace behind a service whose calls are not
//     linked names that service.
func (b *builder) findCalls() {
	b.calls = b.calls[:0]
	b.spansOf(func(_, first int, order []int32) {
		find := b.finder(order)
		for i, o := range order {
			r := &b.rows[o]
			if !isServer(r.kind) {
				continue
			}
			if r.behind > 0 {
				b.call(edge{r.behind - 1, b.names.services[r.service], true, true}, first+i)
			}
			at := find(r.id)
			if at < 0 || !isClient(b.rows[order[at]].kind) {
				if at = -1; r.parent != 0 {
					at = find(r.parent)
				}
			}
			if at < 0 {
				continue
			}
			p := &b.rows[order[at]]
			p.answered = true
			if p.service == r.service {
				continue
			}
			measured := i
			if isClient(p.kind) {
				measured = at
			}
			b.call(edge{p.service, b.names.services[r.service], true, false}, first+measured)
		}
		for i, o := range order {
			r := &b.rows[o]
			switch {
			case !isClient(r.kind) || r.answered:
			case r.called > 0:
				b.call(edge{r.service, b.names.services[r.called-1], true, false}, first+i)
			case !r.late:
				if peer := peerOf(r); peer != "" {
					b.call(edge{r.service, peer, false, false}, first+i)
				}
			}
		}
	})
}

func (b *builder) call(e edge, at int) {
	i, ok := b.edgeOf[e]
	if !ok {
		i = uint32(len(b.names.edges))
		b.names.edges = append(b.names.edges, e)
		b.edgeOf[e] = i
	}
	b.calls = append(b.calls, call{i, int32(at)})
}

// finder finds a span of the trace by its id, a client span first; -1 if it is not here.
func (b *builder) finder(order []int32) func(id uint64) int {
	if len(order) <= smallTrace {
		return func(id uint64) int {
			found := -1
			for i, o := range order {
				if r := &b.rows[o]; r.id == id {
					if isClient(r.kind) {
						return i
					}
					if found < 0 {
						found = i
					}
				}
			}
			return found
		}
	}
	clear(b.byID)
	for _, clients := range []bool{false, true} {
		for i := len(order) - 1; i >= 0; i-- {
			if r := &b.rows[order[i]]; isClient(r.kind) == clients {
				b.byID[r.id] = int32(i)
			}
		}
	}
	return func(id uint64) int {
		if i, ok := b.byID[id]; ok {
			return int(i)
		}
		return -1
	}
}

func isClient(kind int32) bool {
	return kind == int32(ptrace.SpanKindClient) || kind == int32(ptrace.SpanKindProducer)
}

func isServer(kind int32) bool {
	return kind == int32(ptrace.SpanKindServer) || kind == int32(ptrace.SpanKindConsumer)
}

// peerOf is what a client or producer span calls its peer; "" if it does not,
// or if the peer is traced and only its span is missing.
func peerOf(r *row) string {
	var peer semconv.Peer
	traced := false
	// The bytes have been walked before, without an error.
	_ = eachAlong(r.field, func(kv []byte) error {
		key, value, err := keyValue(kv)
		if f := peer.Field(string(key)); f != nil {
			*f = textValue(value)
		} else if string(key) == semconv.PeerTraced {
			traced = boolValue(value)
		}
		return err
	}, wire.ScopeSpansSpan, wire.SpanAttribute)
	if traced {
		return ""
	}
	return spantext.Name(peer.Name(r.kind == int32(ptrace.SpanKindProducer)), spantext.MostName)
}

// textValue is the text in an encoded AnyValue, or its integer, as ports are.
func textValue(value []byte) string {
	text := stringValue(value)
	_ = eachField(value, func(tag, v uint64, _, _ []byte) error {
		if tag == wire.AnyValueInt {
			text = strconv.FormatInt(int64(v), 10)
		}
		return nil
	})
	return text
}
