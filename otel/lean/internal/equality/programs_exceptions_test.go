package equality_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

type valueError struct{ code int }

func (e valueError) Error() string { return fmt.Sprintf("code %d", e.code) }

type pointerError struct{}

func (*pointerError) Error() string { return "by pointer" }

type genericError[T any] struct{ v T }

func (e genericError[T]) Error() string { return fmt.Sprint(e.v) }

func noMap() map[string]int { return nil }

func exceptionPrograms() []program {
	local := struct{ error }{errors.New("in a struct without a name")}
	out := []program{
		one("errors/recorded", func(s trace.Span) {
			for _, err := range []error{errors.New("plain"), fmt.Errorf("wrapped: %w", io.EOF), valueError{3}, &valueError{4}, &pointerError{}, (*pointerError)(nil),
				genericError[int]{5}, genericError[map[string]int]{}, errors.Join(io.EOF, io.ErrUnexpectedEOF), &os.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist},
				context.Canceled, context.DeadlineExceeded, local, errors.New("")} {
				s.RecordError(err)
			}
		}),
		one("errors/nil is nothing", func(s trace.Span) { s.RecordError(nil); s.RecordError(nil, trace.WithStackTrace(true)) }),
		one("errors/with stack trace", func(s trace.Span) { s.RecordError(io.EOF, trace.WithStackTrace(true)) }),
		one("errors/stack trace on and off again", func(s trace.Span) { s.RecordError(io.EOF, trace.WithStackTrace(true), trace.WithStackTrace(false)) }),
		one("errors/with attributes and timestamp", func(s trace.Span) {
			s.RecordError(io.EOF, trace.WithAttributes(attribute.Int("a", 1), attribute.String("exception.type", "mine")), at(time.Second))
			s.RecordError(io.EOF, at(time.Second), trace.WithStackTrace(true), trace.WithAttributes(attribute.Bool("exception.escaped", true)))
		}),
		one("errors/status is another matter", func(s trace.Span) {
			s.RecordError(io.EOF)
			s.SetStatus(codes.Error, "failed")
			s.RecordError(io.EOF)
		}),
	}
	panics := []struct {
		name string
		with func()
	}{
		{"a string", func() { panic("text") }},
		{"an empty string", func() { panic("") }},
		{"an error", func() { panic(io.EOF) }},
		{"a typed error", func() { panic(&valueError{7}) }},
		{"a number", func() { panic(42) }},
		{"a struct", func() { panic(struct{ A, B int }{1, 2}) }},
		{"nil", func() { panic(nil) }}, //nolint:govet // a program may do that
		{"a nil pointer in an interface", func() { var p *pointerError; panic(p) }},
		{"an index out of range", func() { s := make([]int, 1); i := len(s); s[i%2] = s[i+len(os.Args)] }},
		{"a write to a nil map", func() { noMap()["x"] = 1 }},
		{"a nil dereference", func() { var e *valueError; _ = e.Error() }},
	}
	for _, p := range panics {
		for _, stack := range []bool{false, true} {
			name := "panic/with " + p.name
			if stack {
				name += ", stack trace"
			}
			out = append(out, program{Name: name, Run: func(ctx context.Context, e *env) {
				defer func() {
					r := recover()
					e.Note("recovered %T %v", r, r)
				}()
				ctx, parent := e.Main().Start(ctx, "parent")
				defer parent.End(trace.WithStackTrace(stack))
				_, s := e.Main().Start(ctx, "span")
				defer s.End(trace.WithStackTrace(stack))
				p.with()
			}})
		}
	}
	return append(out, otherPanics()...)
}

func otherPanics() []program {
	recovering := func(name string, f func(ctx context.Context, e *env, s trace.Span)) program {
		return program{Name: name, Run: func(ctx context.Context, e *env) {
			defer func() { e.Note("recovered %v", recover()) }()
			ctx, s := e.Main().Start(ctx, "span")
			f(ctx, e, s)
		}}
	}
	return []program{
		recovering("panic/End in a function that is deferred sees none", func(_ context.Context, _ *env, s trace.Span) {
			defer func() { s.End() }()
			panic("text")
		}),
		recovering("panic/with end time", func(_ context.Context, _ *env, s trace.Span) {
			defer s.End(at(time.Minute))
			panic("text")
		}),
		recovering("panic/of a span that has ended", func(_ context.Context, _ *env, s trace.Span) {
			defer s.End()
			s.End()
			panic("text")
		}),
		recovering("panic/after one that was recovered", func(_ context.Context, _ *env, s trace.Span) {
			defer s.End()
			func() {
				defer func() { _ = recover() }()
				panic("first")
			}()
			panic("second")
		}),
		recovering("panic/recovered before End", func(_ context.Context, _ *env, s trace.Span) {
			defer s.End()
			defer func() { _ = recover() }()
			panic("text")
		}),
		recovering("panic/replaced while unwinding", func(ctx context.Context, e *env, s trace.Span) {
			defer s.End()
			defer func() { panic("second") }()
			_, child := e.Main().Start(ctx, "child")
			defer child.End()
			panic("first")
		}),
		recovering("panic/of a span that is not recorded", func(_ context.Context, e *env, s trace.Span) {
			s.End()
			_, none := e.Main().Start(trace.ContextWithSpanContext(context.Background(), remote(0, "")), "none")
			defer none.End()
			panic("text")
		}),
		{Name: "panic/Goexit is none", Run: func(ctx context.Context, e *env) {
			var done sync.WaitGroup
			done.Add(1)
			go func() {
				defer done.Done()
				_, s := e.Main().Start(ctx, "span")
				defer s.End(trace.WithStackTrace(true))
				runtime.Goexit()
			}()
			done.Wait()
		}},
		recovering("panic/with a status and events before", func(_ context.Context, _ *env, s trace.Span) {
			defer s.End()
			s.AddEvent("before")
			s.SetStatus(codes.Ok, "")
			panic(errors.New("after"))
		}),
	}
}
