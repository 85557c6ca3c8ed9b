package equality_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// family starts a span and a child, notes both and what goes on from them.
func family(ctx context.Context, e *env, start ...trace.SpanStartOption) {
	in, s := e.Main().Start(ctx, "span", start...)
	e.NoteSpan("span", s)
	e.NoteHeaders("span", in)
	under, child := e.Main().Start(in, "child")
	e.NoteSpan("child", child)
	e.NoteHeaders("child", under)
	child.End()
	s.End()
}

func parentPrograms() []program {
	var out []program
	contexts := []struct {
		name string
		c    trace.SpanContext
	}{
		{"sampled", remote(1, "")}, {"not sampled", remote(0, "")}, {"sampled, tracestate", remote(1, "a=1,b=2")}, {"not sampled, tracestate", remote(0, "a=1")},
		{"random flag", remote(3, "")}, {"not sampled, random flag", remote(2, "")}, {"all flags", remote(0xff, "")}, {"unknown flags, not sampled", remote(0xfc, "x=y")},
		{"without span id", remote(1, "a=1").WithSpanID(trace.SpanID{})}, {"without trace id", remote(1, "a=1").WithTraceID(trace.TraceID{})}, {"none", trace.SpanContext{}},
		{"only tracestate", trace.SpanContext{}.WithTraceState(remote(1, "a=1").TraceState())}, {"only flags", trace.SpanContext{}.WithTraceFlags(3)},
	}
	for _, c := range contexts {
		for _, root := range []bool{false, true} {
			name, start := "", []trace.SpanStartOption(nil)
			if root {
				name, start = ", but a new root", append(start, trace.WithNewRoot())
			}
			out = append(out,
				program{Name: "parent/remote: " + c.name + name, Run: func(ctx context.Context, e *env) {
					family(trace.ContextWithRemoteSpanContext(ctx, c.c), e, start...)
				}},
				program{Name: "parent/not of this provider: " + c.name + name, Run: func(ctx context.Context, e *env) {
					family(trace.ContextWithSpanContext(ctx, c.c.WithRemote(false)), e, start...)
				}})
		}
	}
	return append(out, []program{
		{Name: "parent/none", Run: func(ctx context.Context, e *env) { family(ctx, e) }},
		{Name: "parent/a context that is nil", Run: func(_ context.Context, e *env) {
			var none context.Context
			family(none, e)
		}},
		{Name: "parent/a context without values", Run: func(_ context.Context, e *env) { family(context.TODO(), e) }},
		{Name: "parent/of another provider", Run: func(ctx context.Context, e *env) {
			ctx, s := noop.NewTracerProvider().Tracer("noop").Start(trace.ContextWithRemoteSpanContext(ctx, remote(1, "a=1")), "noop")
			family(ctx, e)
			s.End()
		}},
		{Name: "parent/a new root in a tree", Run: func(ctx context.Context, e *env) {
			ctx, s := e.Main().Start(ctx, "outer")
			family(ctx, e, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)), trace.WithAttributes(attribute.Int("a", 1)))
			family(ctx, e)
			s.End()
		}},
		{Name: "parent/a remote one in a tree", Run: func(ctx context.Context, e *env) {
			ctx, s := e.Main().Start(ctx, "outer")
			family(trace.ContextWithRemoteSpanContext(ctx, remote(1, "r=1")), e)
			family(ctx, e)
			s.End()
		}},
		{Name: "parent/one that has ended", Run: func(ctx context.Context, e *env) {
			ctx, s := e.Main().Start(ctx, "outer")
			s.End()
			family(ctx, e)
		}},
		{Name: "parent/a span made of a span context", Run: func(ctx context.Context, e *env) {
			ctx, s := e.Main().Start(ctx, "outer")
			family(trace.ContextWithSpanContext(ctx, s.SpanContext()), e)
			family(trace.ContextWithRemoteSpanContext(ctx, s.SpanContext()), e)
			s.End()
		}},
		{Name: "provider/of a span", Run: func(ctx context.Context, e *env) {
			ctx, s := e.Main().Start(ctx, "outer")
			_, child := s.TracerProvider().Tracer("by span", trace.WithInstrumentationVersion("2")).Start(ctx, "child")
			child.End()
			s.End()
			_, late := s.TracerProvider().Tracer("by ended span").Start(ctx, "late")
			late.End()
		}},
		{Name: "provider/of a span that is not recorded", Run: func(ctx context.Context, e *env) {
			_, s := e.Main().Start(trace.ContextWithRemoteSpanContext(ctx, remote(0, "")), "none")
			_, other := s.TracerProvider().Tracer("by span").Start(ctx, "other")
			other.End()
			s.End()
		}},
		{Name: "parent/baggage goes along", Run: func(ctx context.Context, e *env) {
			ctx = e.Propagator.Extract(ctx, carrier{"baggage": "user=alice;p=1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
			family(ctx, e)
			in, s := e.Main().Start(ctx, "s")
			e.Note("%s", baggage.FromContext(in))
			s.End()
		}},
		{Name: "tree/1000 deep", Run: func(ctx context.Context, e *env) {
			spans := make([]trace.Span, 1000)
			for i := range spans {
				ctx, spans[i] = e.Main().Start(ctx, "level")
			}
			for i := range spans {
				spans[len(spans)-1-i].End()
			}
		}},
		{Name: "tree/10000 wide", Run: func(ctx context.Context, e *env) {
			ctx, root := e.Main().Start(ctx, "root")
			for i := range 10000 {
				_, s := e.Main().Start(ctx, "leaf", trace.WithAttributes(attribute.Int("i", i)))
				s.End()
			}
			root.End()
		}},
		{Name: "tree/of three levels, ended out of order", Run: func(ctx context.Context, e *env) {
			var open []trace.Span
			for i := range 3 {
				ctx, s := e.Main().Start(ctx, fmt.Sprint("a", i))
				open = append(open, s)
				for j := range 3 {
					_, s := e.Main().Start(ctx, fmt.Sprint("b", j))
					open = append(open, s)
				}
			}
			for i := range open {
				open[(i*7+3)%len(open)].End()
			}
		}},
	}...)
}
