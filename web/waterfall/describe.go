package waterfall

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// describe fills in span i.
func (t *Trace) describe(s *Span, tr *tree, i int32) {
	f := &tr.flats[i]
	*s = Span{
		Span: f.span, Scope: f.scope, Resource: f.Resource, Service: t.Resources[f.Resource].Service,
		Depth: int(tr.Depth[i]), Above: -1,
		Start: f.Start - t.Start, Duration: f.End - f.Start, Self: tr.Self(i),
		MissingParent: !f.Parent.IsZero() && f.Parent != f.ID && tr.Parent[i] < 0,
	}
	var peerTraced, answer bool
	var target semconv.Target
	var retro semconv.RetroSet
	for key, v := range f.span.Attributes().All() {
		switch key {
		case semconv.Late:
			s.Late = v.Type() == pcommon.ValueTypeBool && v.Bool()
		case semconv.ClockOffset:
			if v.Type() == pcommon.ValueTypeInt {
				s.ClockOffset = v.Int()
			}
		case semconv.LinkedBy:
			s.LinkedBy = v.AsString()
		case semconv.LinkingReason:
			s.Unlinked = v.AsString()
		case semconv.Behind:
			s.Behind = v.AsString()
		case semconv.PeerTraced:
			peerTraced = v.Type() == pcommon.ValueTypeBool && v.Bool()
		case semconv.Retro:
			if v.Bool() {
				retro |= semconv.RetroKept
			}
		case semconv.RetroReason:
			retro |= semconv.RetroSetOf(v.Str())
		case responseStatus, databaseStatus:
			answer = true
		default:
			if v.Type() == pcommon.ValueTypeStr {
				target.Take(key, v.Str())
			}
		}
	}
	t.sampled.Add(t.states.Adjusted(f.span.TraceState().AsRaw()), f.Parent.IsZero(), retro)
	s.Target = target.Beside(f.span.Name())
	// A request that failed without a response may not have reached the peer;
	// tare_tracer has the same rule.
	unreached := !answer && f.span.Status().Code() == ptrace.StatusCodeError
	s.MissingServer = peerTraced && !unreached && f.span.Kind() == ptrace.SpanKindClient && !tr.answered(i)
}

// answered reports whether the server's span of a client span is in the trace.
func (t *tree) answered(i int32) bool {
	for _, c := range t.Children(i) {
		if k := t.flats[c].span.Kind(); k == ptrace.SpanKindServer || k == ptrace.SpanKindConsumer {
			return true
		}
	}
	return false
}

// judge copies what the collector wrote about the whole trace. It is on the span that was
// the top then; late spans may have changed which span this is, so all are searched.
func (t *Trace) judge(tr *tree) {
	top := tr.top()
	take := func(s ptrace.Span) bool {
		state, ok := s.Attributes().Get(semconv.TraceState)
		if ok {
			t.State = state.AsString()
			if v, ok := s.Attributes().Get(semconv.TraceReason); ok {
				t.Reason = v.AsString()
			}
		}
		if v, ok := s.Attributes().Get(semconv.KeepReason); ok && t.Keep == "" {
			t.Keep = v.AsString()
		}
		return ok
	}
	if take(tr.flats[top].span) {
		return
	}
	for i := range tr.flats {
		if take(tr.flats[i].span) {
			return
		}
	}
}
