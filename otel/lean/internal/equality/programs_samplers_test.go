package equality_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spying is a sampler that notes what it was asked.
type spying struct {
	e      *env
	answer func(p sdktrace.SamplingParameters) sdktrace.SamplingResult
}

func (s spying) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	s.e.Note("asked: trace %s, name %q, kind %d, attributes %v, %d links, parent %s %s", p.TraceID, p.Name, p.Kind, p.Attributes, len(p.Links),
		parent.SpanID(), parent.TraceState())
	return s.answer(p)
}

func (s spying) Description() string { return "spying" }

func state(p sdktrace.SamplingParameters) trace.TraceState {
	return trace.SpanContextFromContext(p.ParentContext).TraceState()
}

// decide answers with a decision by the first letter of the name: d drop, r record only, else sample.
func decide(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	out := sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: state(p)}
	switch {
	case p.Name == "":
	case p.Name[0] == 'd':
		out.Decision = sdktrace.Drop
	case p.Name[0] == 'r':
		out.Decision = sdktrace.RecordOnly
	}
	return out
}

func samplerPrograms() []program {
	var out []program
	all := func(ctx context.Context, e *env) {
		family(ctx, e)
		for _, c := range []trace.SpanContext{remote(1, "a=1"), remote(0, "a=1"), remote(3, ""), remote(2, "")} {
			family(trace.ContextWithRemoteSpanContext(ctx, c), e)
			family(trace.ContextWithSpanContext(ctx, c.WithRemote(false)), e)
			family(trace.ContextWithRemoteSpanContext(ctx, c), e, trace.WithNewRoot())
		}
	}
	on, off := sdktrace.AlwaysSample(), sdktrace.NeverSample()
	for i, s := range []sdktrace.Sampler{
		on, off, sdktrace.TraceIDRatioBased(0), sdktrace.TraceIDRatioBased(1), sdktrace.TraceIDRatioBased(2), sdktrace.ParentBased(on), sdktrace.ParentBased(off),
		sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0)), sdktrace.AlwaysRecord(off), sdktrace.AlwaysRecord(on), sdktrace.ParentBased(sdktrace.AlwaysRecord(off)),
	} {
		out = append(out, with(program{Name: fmt.Sprint("sampler/", i, " ", s.Description()), Run: all}, options{Sampler: s}))
	}
	for bits := range 16 {
		pick := func(i int) sdktrace.Sampler {
			if bits>>i&1 == 1 {
				return on
			}
			return off
		}
		s := sdktrace.ParentBased(on, sdktrace.WithRemoteParentSampled(pick(0)), sdktrace.WithRemoteParentNotSampled(pick(1)),
			sdktrace.WithLocalParentSampled(pick(2)), sdktrace.WithLocalParentNotSampled(pick(3)))
		out = append(out, with(program{Name: fmt.Sprintf("sampler/parent based %04b", bits), Run: all}, options{Sampler: s}))
	}
	custom := func(name string, answer func(p sdktrace.SamplingParameters) sdktrace.SamplingResult, run func(ctx context.Context, e *env)) program {
		return program{Name: "sampler/" + name, Run: run, Options: func(e *env) options { return options{Sampler: spying{e, answer}} }}
	}
	mixed := func(ctx context.Context, e *env) {
		for _, outer := range []string{"sampled", "dropped", "recorded"} {
			ctx, s := e.Main().Start(ctx, outer, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.Int("a", 1), attribute.Int("a", 2)))
			e.NoteSpan(outer, s)
			for _, inner := range []string{"sampled", "dropped", "recorded"} {
				ctx, s := e.Main().Start(ctx, inner, trace.WithLinks(trace.LinkFromContext(ctx)), trace.WithSpanKind(99))
				e.NoteSpan(outer+"/"+inner, s)
				e.NoteHeaders(outer+"/"+inner, ctx)
				change(s)
				s.End()
			}
			s.End()
		}
	}
	return append(out,
		custom("custom, all decisions", decide, mixed),
		custom("custom, all decisions, for remote parents", decide, func(ctx context.Context, e *env) {
			mixed(trace.ContextWithRemoteSpanContext(ctx, remote(3, "a=1")), e)
		}),
		custom("custom, adds attributes", func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
			r := decide(p)
			r.Attributes = []attribute.KeyValue{attribute.String("sampler", "custom"), attribute.Int("a", 0), attribute.Int("", 1)}
			return r
		}, mixed),
		custom("custom, adds tracestate", func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
			r := decide(p)
			r.Tracestate, _ = r.Tracestate.Insert("ot", "th:c") // the key is valid
			return r
		}, mixed),
		custom("custom, clears tracestate", func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
			return sdktrace.SamplingResult{Decision: decide(p).Decision}
		}, func(ctx context.Context, e *env) { mixed(trace.ContextWithRemoteSpanContext(ctx, remote(1, "a=1")), e) }),
		custom("custom, a decision that is none", func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
			return sdktrace.SamplingResult{Decision: 77, Tracestate: state(p)}
		}, mixed),
		custom("custom, sees a nil context's parent", decide, func(_ context.Context, e *env) {
			var none context.Context
			family(none, e)
		}),
		custom("custom, fills the limit", func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
			r := decide(p)
			r.Attributes = numbered("s", 127)
			return r
		}, mixed),
	)
}
