package equality_test

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

type (
	program = equality.Program
	env     = equality.Env
	options = equality.Options
)

// programs are all programs of the suite, by theme; each theme has its file.
func programs() []program {
	return slices.Concat(attributePrograms(), attributeLimitPrograms(), eventPrograms(), exceptionPrograms(), linkPrograms(),
		statusPrograms(), lifePrograms(), parentPrograms(), samplerPrograms(), scopePrograms(),
		resourcePrograms(), concurrentPrograms(), environPrograms(), w3cPrograms())
}

// one is a program with one span.
func one(name string, f func(s trace.Span), start ...trace.SpanStartOption) program {
	return program{Name: name, Run: func(ctx context.Context, e *env) {
		_, s := e.Main().Start(ctx, "span", start...)
		f(s)
		s.End()
	}}
}

// with gives a program its options.
func with(p program, o options) program {
	p.Options = func(*env) options { return o }
	return p
}

// limited gives a program the default limits, changed.
func limited(p program, change func(l *sdktrace.SpanLimits)) program {
	p.Options = func(*env) options {
		l := sdktrace.NewSpanLimits()
		change(&l)
		return options{Limits: &l}
	}
	return p
}

func set(kv ...attribute.KeyValue) func(trace.Span) {
	return func(s trace.Span) { s.SetAttributes(kv...) }
}

// numbered are n attributes with keys of their own.
func numbered(prefix string, n int) []attribute.KeyValue {
	out := make([]attribute.KeyValue, n)
	for i := range out {
		out[i] = attribute.Int(prefix+string(rune('a'+i/26%26))+string(rune('a'+i%26)), i)
	}
	return out
}

// remote is a span context of fixed ids, as from another process.
func remote(flags trace.TraceFlags, state string) trace.SpanContext {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c},
		SpanID:     trace.SpanID{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31},
		TraceFlags: flags, TraceState: ts, Remote: true,
	})
}
