package assemble

import "github.com/tare-trace/tare/span/semconv"

// emit sets the state of a trace, or of a part of one, and moves its spans to out.
func (s *shard) emit(t *trace, r Reasons, out *Out) {
	if t.hasMessages {
		s.fold(t)
	}
	if t.cross && s.a.opts.Clock != IgnoreClocks {
		s.setClocks(t)
	}
	for i := range t.items {
		t.name(&t.items[i]) // before a span is given away
		if s.a.routes != nil {
			s.a.routes.name(&t.items[i])
		}
	}
	if t.doubles > 0 && !t.split {
		s.replace(t)
	}
	top := t.top()
	state, why, kinds := semconv.StateIncomplete, "", ""
	if r != 0 {
		why = r.String()
	} else {
		state, why, kinds = t.linking()
	}
	for _, p := range s.arrange(t, top) {
		x := &t.items[p.item]
		unmark(x)
		if x == top {
			attrs := x.span.Attributes()
			attrs.PutStr(semconv.TraceState, state)
			if why != "" {
				attrs.PutStr(semconv.TraceReason, why)
			}
		}
		out.add(x)
		s.stats.Emitted++
	}
	if top == nil {
		return // only message events, all dropped
	}
	switch state {
	case semconv.StateComplete:
		s.stats.Complete++
	case semconv.StateUnlinked:
		s.stats.Unlinked[kinds]++
	default:
		s.stats.Incomplete[r]++
	}
	out.endTrace()
}

// nameless is what Tare's agent calls a span of HTTP/2 whose headers it could not
// decode, as it had not seen all that came before on the connection.
const nameless = "http2"

// name gives such a server span the method of its client's, if that is known: both are
// of one request.
func (t *trace) name(x *item) {
	if x.kind != kindServer || x.parent == 0 || x.span.Name() != nameless {
		return
	}
	up := t.find(x.parent)
	if up == none || t.items[up].kind != kindClient {
		return
	}
	asked := t.items[up].span
	method, ok := asked.Attributes().Get("rpc.method")
	if !ok {
		return
	}
	x.span.SetName(asked.Name())
	attrs := x.span.Attributes()
	attrs.PutStr("rpc.system.name", "grpc")
	attrs.PutStr("rpc.method", method.AsString())
}

// top is the span that carries the state of the trace: the earliest root, or the
// earliest span if there is no root.
func (t *trace) top() (top *item) {
	for i := range t.items {
		x := &t.items[i]
		if x.flags&folded != 0 {
			continue
		}
		if top == nil || x.above(top) {
			top = x
		}
	}
	return top
}

func (x *item) above(other *item) bool {
	// A server span that shares its client's id is below it even without a parent id.
	root, otherRoot := x.parent == 0 && x.up == none, other.parent == 0 && other.up == none
	if root != otherRoot {
		return root
	}
	// What was called is below its caller, whatever their clocks say.
	if first, otherFirst := x.up == none, other.up == none; first != otherFirst {
		return first
	}
	return x.span.StartTimestamp() < other.span.StartTimestamp()
}
