package equality_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// numberedLink links to span n of the remote trace.
func numberedLink(n int, kv ...attribute.KeyValue) trace.Link {
	return trace.Link{SpanContext: remote(1, "").WithSpanID(trace.SpanID{7: byte(n + 1)}), Attributes: kv}
}

func addLinks(n int) func(trace.Span) {
	return func(s trace.Span) {
		for i := range n {
			s.AddLink(numberedLink(i, numbered("k", i%4)...))
		}
	}
}

func linkPrograms() []program {
	sampled, state := remote(1, ""), remote(3, "a=1,b=2")
	noSpan := trace.NewSpanContext(trace.SpanContextConfig{TraceID: sampled.TraceID()})
	onlyState := trace.NewSpanContext(trace.SpanContextConfig{TraceState: state.TraceState()})
	several := []trace.Link{
		{SpanContext: sampled}, {SpanContext: sampled.WithTraceFlags(0)}, {SpanContext: sampled.WithTraceFlags(0xff)}, {SpanContext: sampled.WithRemote(false)},
		{SpanContext: state}, {SpanContext: sampled, Attributes: everyType()}, {SpanContext: sampled}, {SpanContext: sampled, Attributes: []attribute.KeyValue{}},
		{SpanContext: sampled, Attributes: []attribute.KeyValue{attribute.Int("a", 1), attribute.Int("a", 2), attribute.Int("", 3)}},
		{SpanContext: sampled, Attributes: []attribute.KeyValue{attribute.Map("m", attribute.Int("k", 1), attribute.Int("k", 2))}},
	}
	invalid := []trace.Link{
		{}, {SpanContext: noSpan}, {Attributes: []attribute.KeyValue{attribute.Int("a", 1)}}, {SpanContext: onlyState},
		{SpanContext: noSpan, Attributes: []attribute.KeyValue{attribute.Int("a", 1)}}, {SpanContext: noSpan.WithTraceState(state.TraceState())},
	}
	add := func(links []trace.Link) func(trace.Span) {
		return func(s trace.Span) {
			for _, l := range links {
				s.AddLink(l)
			}
		}
	}
	none := func(trace.Span) {}
	out := []program{
		one("links/at start", none, trace.WithLinks(several...)),
		one("links/added", add(several)),
		one("links/at start and added", add(several[:2]), trace.WithLinks(several[2]), trace.WithLinks(), trace.WithLinks(several[3:5]...)),
		one("links/not valid, at start", none, trace.WithLinks(invalid...)),
		one("links/not valid, added", add(invalid)),
		one("links/128 and no more by default", addLinks(131)),
		{Name: "links/to spans of the program", Run: func(ctx context.Context, e *env) {
			_, a := e.Main().Start(ctx, "a")
			in, b := e.Main().Start(ctx, "b", trace.WithLinks(trace.LinkFromContext(trace.ContextWithSpan(ctx, a), attribute.Int("n", 1))))
			_, c := e.Main().Start(in, "c", trace.WithLinks(trace.Link{SpanContext: a.SpanContext()}, trace.Link{SpanContext: b.SpanContext()}))
			a.AddLink(trace.Link{SpanContext: c.SpanContext()})
			c.AddLink(trace.Link{SpanContext: c.SpanContext()})
			c.End()
			b.End()
			a.End()
		}},
		{Name: "links/to a span that is not recorded", Run: func(ctx context.Context, e *env) {
			_, none := e.Main().Start(trace.ContextWithSpanContext(ctx, remote(0, "k=v")), "none")
			_, s := e.Main().Start(ctx, "s", trace.WithLinks(trace.Link{SpanContext: none.SpanContext()}))
			s.AddLink(trace.LinkFromContext(trace.ContextWithSpan(ctx, none)))
			none.AddLink(trace.Link{SpanContext: s.SpanContext()})
			s.End()
			none.End()
		}},
	}
	for _, n := range []int{-1, 0, 1, 2, 7} {
		out = append(out,
			limited(one(fmt.Sprintf("link count limit %d/oldest go", n), addLinks(20), trace.WithLinks(several...)), func(l *sdktrace.SpanLimits) { l.LinkCountLimit = n }),
			limited(one(fmt.Sprintf("link attribute limit %d", n), addLinks(10), trace.WithLinks(numberedLink(100, numbered("k", 150)...)), trace.WithLinks(several...)),
				func(l *sdktrace.SpanLimits) { l.AttributePerLinkCountLimit = n }))
	}
	return append(out, one("link attribute limit/128 by default", none, trace.WithLinks(numberedLink(0, numbered("k", 131)...))))
}
