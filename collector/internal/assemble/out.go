package assemble

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// batchSpans is the size at which a batch ends; a trace is never split for it.
const batchSpans = 8192

// Out collects emitted spans, grouped by resource and scope. It is for one goroutine;
// the zero value is ready to use.
type Out struct {
	batches []ptrace.Traces
	now     ptrace.Traces
	spans   int
	groups  map[*origin]ptrace.SpanSlice
	rss     map[*resource]ptrace.ResourceSpans
	last    *origin
	to      ptrace.SpanSlice
}

// Take returns the batches collected so far. Each holds whole traces, or late spans.
func (o *Out) Take() []ptrace.Traces {
	o.seal()
	list := o.batches
	o.batches = nil
	return list
}

// seal ends the current batch.
func (o *Out) seal() {
	if o.spans == 0 {
		return
	}
	o.batches = append(o.batches, o.now)
	o.now, o.spans, o.last = ptrace.Traces{}, 0, nil
	clear(o.groups)
	clear(o.rss)
}

// endTrace is called after each trace; a batch may end only there.
func (o *Out) endTrace() {
	if o.spans >= batchSpans {
		o.seal()
	}
}

func (o *Out) add(x *item) {
	if x.origin != o.last {
		o.group(x.origin)
	}
	x.span.MoveTo(o.to.AppendEmpty())
	o.spans++
}

func (o *Out) group(from *origin) {
	if o.spans == 0 {
		o.now = ptrace.NewTraces()
		if o.groups == nil {
			o.groups, o.rss = map[*origin]ptrace.SpanSlice{}, map[*resource]ptrace.ResourceSpans{}
		}
	}
	to, ok := o.groups[from]
	if !ok {
		rs, ok := o.rss[from.resource]
		if !ok {
			rs = o.now.ResourceSpans().AppendEmpty()
			from.resource.value.CopyTo(rs.Resource())
			rs.SetSchemaUrl(from.resource.schema)
			o.rss[from.resource] = rs
		}
		ss := rs.ScopeSpans().AppendEmpty()
		from.scope.CopyTo(ss.Scope())
		ss.SetSchemaUrl(from.schema)
		to = ss.Spans()
		o.groups[from] = to
	}
	o.last, o.to = from, to
}

// late emits a span whose trace was emitted before.
func (o *Out) late(x *item) {
	unmark(x)
	x.span.Attributes().PutBool(semconv.Late, true)
	o.add(x)
	o.endTrace()
}

// unmark removes attributes about the trace that another collector, or a sender, has set.
func unmark(x *item) {
	if x.flags&marked != 0 {
		attrs := x.span.Attributes()
		attrs.Remove(semconv.TraceState)
		attrs.Remove(semconv.TraceReason)
		attrs.Remove(semconv.Late)
	}
}
