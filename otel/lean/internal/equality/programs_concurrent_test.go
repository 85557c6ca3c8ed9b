package equality_test

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// together runs f n times at once.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func concurrentPrograms() []program {
	concurrent := func(name string, run func(ctx context.Context, e *env)) program {
		return program{Name: "concurrent/" + name, Concurrent: true, Run: run}
	}
	// What the goroutines of these programs leave is the same in whatever order they run.
	return []program{
		concurrent("children of one span", func(ctx context.Context, e *env) {
			ctx, root := e.Main().Start(ctx, "root")
			together(64, func(i int) {
				_, s := e.Main().Start(ctx, "child", trace.WithAttributes(attribute.Int("i", i)))
				s.AddEvent("event", trace.WithAttributes(attribute.Int("i", i)))
				s.End()
			})
			root.End()
		}),
		concurrent("children that cannot be told apart", func(ctx context.Context, e *env) {
			ctx, root := e.Main().Start(ctx, "root")
			together(32, func(i int) {
				ctx, s := e.Main().Start(ctx, "child")
				_, t := e.Main().Start(ctx, fmt.Sprint("grandchild ", i%4))
				t.End()
				s.End()
			})
			root.End()
		}),
		concurrent("traces", func(ctx context.Context, e *env) {
			together(8, func(i int) {
				for j := range 60 {
					in, s := e.Main().Start(ctx, "root", trace.WithAttributes(attribute.Int("i", i), attribute.Int("j", j)), trace.WithSpanKind(trace.SpanKindServer))
					_, c := e.Tracer(fmt.Sprint("scope ", j%3)).Start(in, "child")
					c.SetStatus(codes.Error, fmt.Sprint(j))
					c.End()
					s.End()
				}
			})
		}),
		concurrent("tracers", func(ctx context.Context, e *env) {
			together(16, func(i int) {
				for j := range 20 {
					_, s := e.Tracer("same", trace.WithInstrumentationVersion(fmt.Sprint(j%5)), trace.WithInstrumentationAttributes(attribute.Int("j", j%2))).Start(ctx, "s")
					s.SetAttributes(attribute.Int("i", i), attribute.Int("j", j))
					s.End()
				}
			})
		}),
		concurrent("one value for one attribute", func(ctx context.Context, e *env) {
			_, s := e.Main().Start(ctx, "s")
			together(16, func(int) {
				for range 20 {
					s.SetAttributes(attribute.String("same", "value"))
				}
			})
			s.End()
		}),
		concurrent("events and links that cannot be told apart", func(ctx context.Context, e *env) {
			_, s := e.Main().Start(ctx, "s")
			together(16, func(int) {
				for range 20 {
					s.AddEvent("event", trace.WithAttributes(attribute.Int("a", 1)))
					s.AddLink(numberedLink(1))
					s.SetName("name")
					s.SetStatus(codes.Error, "status")
				}
			})
			s.End()
		}),
		limited(concurrent("attributes over the limit are counted", func(ctx context.Context, e *env) {
			_, s := e.Main().Start(ctx, "s", trace.WithAttributes(attribute.Int("first", 1), attribute.Int("second", 1)))
			together(16, func(i int) {
				for j := range 20 {
					s.SetAttributes(attribute.Int(fmt.Sprint(i, j), 1))
				}
			})
			s.End()
		}), func(l *sdktrace.SpanLimits) { l.AttributeCountLimit = 2 }),
		concurrent("End", func(ctx context.Context, e *env) {
			_, s := e.Main().Start(ctx, "s")
			together(16, func(int) { s.End() })
		}),
		concurrent("flushes", func(ctx context.Context, e *env) {
			together(8, func(i int) {
				for j := range 20 {
					_, s := e.Main().Start(ctx, "s", trace.WithAttributes(attribute.Int("i", i), attribute.Int("j", j)))
					s.End()
					if err := e.Flush(ctx); err != nil {
						e.Note("%v", err)
					}
				}
			})
		}),
		concurrent("unsampled between sampled", func(ctx context.Context, e *env) {
			together(8, func(i int) {
				for j := range 50 {
					in := trace.ContextWithRemoteSpanContext(ctx, remote(trace.TraceFlags(j&1), fmt.Sprintf("i=%d,j=%d", i, j)))
					in, s := e.Main().Start(in, "s")
					_, c := e.Main().Start(in, "c")
					c.End()
					s.End()
				}
			})
		}),
	}
}
