package equality_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// change does to a span all that can be done.
func change(s trace.Span) {
	s.SetName("changed")
	s.SetAttributes(attribute.Int("changed", 1))
	s.SetStatus(codes.Error, "changed")
	s.AddEvent("changed")
	s.AddLink(trace.Link{SpanContext: remote(1, "")})
	s.RecordError(errors.New("changed"))
}

func lifePrograms() []program {
	none := func(trace.Span) {}
	return []program{
		{Name: "kinds/all, and such as are none", Run: func(ctx context.Context, e *env) {
			for _, k := range []trace.SpanKind{trace.SpanKindUnspecified, trace.SpanKindInternal, trace.SpanKindServer, trace.SpanKindClient,
				trace.SpanKindProducer, trace.SpanKindConsumer, -1, 6, 1000} {
				_, s := e.Main().Start(ctx, fmt.Sprint("kind ", int(k)), trace.WithSpanKind(k))
				s.End()
			}
			_, s := e.Main().Start(ctx, "last counts", trace.WithSpanKind(trace.SpanKindServer), trace.WithSpanKind(trace.SpanKindClient))
			s.End()
		}},
		{Name: "names/of any text", Run: func(ctx context.Context, e *env) {
			for _, name := range []string{"", " ", "name", "имя 名前", "a\x00b\n", strings.Repeat("long ", 5000)} {
				_, s := e.Main().Start(ctx, name)
				s.End()
			}
		}},
		one("names/changed", func(s trace.Span) { s.SetName("first"); s.SetName("second") }),
		one("names/changed to nothing", func(s trace.Span) { s.SetName("") }),
		one("life/End twice", func(s trace.Span) { s.End(); s.End(); s.End(at(time.Hour)) }),
		one("life/changes after End", func(s trace.Span) { s.End(); change(s) }),
		one("life/all changes", change),
		{Name: "life/never ended", Run: func(ctx context.Context, e *env) {
			ctx, lost := e.Main().Start(ctx, "lost")
			_, s := e.Main().Start(ctx, "kept")
			s.End()
			change(lost)
		}},
		{Name: "life/child ends after its parent", Run: func(ctx context.Context, e *env) {
			in, parent := e.Main().Start(ctx, "parent")
			_, child := e.Main().Start(in, "child")
			parent.End()
			_, late := e.Main().Start(in, "late")
			late.End()
			child.End()
		}},
		{Name: "life/what a span tells", Run: func(ctx context.Context, e *env) {
			in, s := e.Main().Start(ctx, "s")
			e.NoteSpan("started", s)
			e.Note("in the context: %t", trace.SpanFromContext(in) == s)
			s.End()
			e.NoteSpan("ended", s)
			e.Note("still in the context: %t", trace.SpanFromContext(in) == s)
		}},
		{Name: "life/values of the context stay", Run: func(ctx context.Context, e *env) {
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, "value"))
			in, s := e.Main().Start(ctx, "s")
			in2, s2 := e.Main().Start(in, "s2")
			cancel()
			e.Note("%v %v %v %v", in.Value(key{}), in2.Value(key{}), in.Err(), in2.Err())
			_, deadline := in.Deadline()
			e.Note("deadline %t", deadline)
			s2.End()
			s.End()
		}},
		one("times/start", none, at(0)),
		one("times/end", func(s trace.Span) { s.End(at(time.Second)) }),
		one("times/start and end", func(s trace.Span) { s.End(at(time.Second)) }, at(0)),
		one("times/end before start", func(s trace.Span) { s.End(at(-time.Second)) }, at(0)),
		one("times/several, the last counts", func(s trace.Span) { s.End(at(time.Second), at(2*time.Second)) }, at(0), at(time.Millisecond)),
		one("times/zero is now", func(s trace.Span) { s.End(trace.WithTimestamp(time.Time{})) }, trace.WithTimestamp(time.Time{})),
		one("times/before 1970", func(s trace.Span) { s.End(trace.WithTimestamp(time.Unix(0, 0))) }, trace.WithTimestamp(time.Unix(-100, 5))),
		one("times/far", func(s trace.Span) { s.End(trace.WithTimestamp(time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC))) },
			trace.WithTimestamp(time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC))),
		one("times/of another zone", func(s trace.Span) {
			s.End(trace.WithTimestamp(equality.At(0).Add(time.Minute).In(time.FixedZone("", -5*3600))))
		},
			trace.WithTimestamp(equality.At(0).In(time.FixedZone("", 5*3600)))),
		one("times/start given, the rest by the clock", func(s trace.Span) { s.AddEvent("now") }, at(0)),
		one("times/start given by the clock", func(s trace.Span) { s.AddEvent("now") }, trace.WithTimestamp(time.Now())),
		one("times/start in the future, the rest by the clock", func(s trace.Span) { s.AddEvent("now") }, trace.WithTimestamp(equality.At(100*365*24*time.Hour))),
		one("times/start before 1970, the rest by the clock", func(s trace.Span) { s.AddEvent("now") }, trace.WithTimestamp(time.Date(1955, 1, 1, 0, 0, 0, 0, time.UTC))),
		one("times/start beyond what a Duration holds, the rest by the clock", func(s trace.Span) { s.AddEvent("now") },
			trace.WithTimestamp(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC))),
		one("times/beyond what OTLP holds", func(s trace.Span) { s.End(trace.WithTimestamp(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))) },
			trace.WithTimestamp(time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC))),
		{Name: "flush/twice, and between spans", Run: func(ctx context.Context, e *env) {
			for i := range 3 {
				ctx, s := e.Main().Start(ctx, fmt.Sprint("span ", i))
				e.Note("%v", e.Flush(ctx))
				s.End()
				e.Note("%v %v", e.Flush(ctx), e.Flush(ctx))
			}
		}},
		{Name: "shutdown/what ended before arrives, nothing after", Run: func(ctx context.Context, e *env) {
			main := e.Main()
			in, before := main.Start(ctx, "before")
			_, during := main.Start(in, "during")
			before.End()
			e.Note("%v", e.Shutdown(ctx))
			during.End()
			_, after := main.Start(ctx, "after")
			change(after)
			after.End()
			_, child := main.Start(in, "child")
			child.End()
			e.Note("%v %v", e.Flush(ctx), e.Shutdown(ctx))
		}},
		{Name: "shutdown/a tracer made after it is without effect", Run: func(ctx context.Context, e *env) {
			e.Note("%v", e.Shutdown(ctx))
			in, s := e.Tracer("after").Start(trace.ContextWithSpanContext(ctx, remote(1, "a=1")), "s")
			change(s)
			s.End()
			e.NoteSpan("after", s)
			e.NoteHeaders("after", in)
		}},
	}
}
