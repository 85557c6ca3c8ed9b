package equality

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Random makes a sequential program of the calls that data encodes: limits and sampler first, then starts,
// changes and ends of spans until the data is used up. The same data is the same program, so that a
// failure can be repeated and a fuzzer can search.
func Random(name string, data []byte) Program {
	return Program{
		Name:    name,
		Options: func(*Env) Options { return newChoices(data).options() },
		Run: func(ctx context.Context, e *Env) {
			c := newChoices(data)
			c.options() // skips what Options has used
			c.run(ctx, e)
		},
	}
}

// choices takes decisions from data, byte by byte; after its end every choice is 0.
type choices struct{ data []byte }

func newChoices(data []byte) *choices { return &choices{data} }

func (c *choices) byte() byte {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return b
}

// n is a number in [0, n), n at most 256.
func (c *choices) n(n int) int { return int(c.byte()) % n }

func (c *choices) yes() bool { return c.byte()&1 == 1 }

func (c *choices) options() Options {
	var o Options
	if c.yes() {
		limit := func() int { return []int{-1, 0, 1, 2, 3, 5, 8, 128}[c.n(8)] }
		o.Limits = &sdktrace.SpanLimits{
			AttributeValueLengthLimit: limit(), AttributeValueDepthLimit: limit(), AttributeCountLimit: limit(), EventCountLimit: limit(), LinkCountLimit: limit(),
			AttributePerEventCountLimit: limit(), AttributePerLinkCountLimit: limit(),
		}
	}
	on, off := sdktrace.AlwaysSample(), sdktrace.NeverSample()
	o.Sampler = []sdktrace.Sampler{nil, on, nil, on, sdktrace.ParentBased(off), sdktrace.AlwaysRecord(sdktrace.ParentBased(on)), byName{}, byName{}}[c.n(8)]
	if c.yes() {
		o.Resource = resource.NewWithAttributes("https://example.org/resource", append(c.attributes(), attribute.String("service.name", "test"))...)
	}
	return o
}

// byName is a sampler whose answer, attributes and tracestate depend on the name of the span alone.
type byName struct{}

func (byName) Description() string { return "by name" }

func (byName) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	switch len(p.Name) % 5 {
	case 0:
		r.Decision = sdktrace.Drop
	case 1:
		r.Decision = sdktrace.RecordOnly
	case 2:
		r.Attributes = []attribute.KeyValue{attribute.String("sampler", p.Name), attribute.Int("a", len(p.Attributes))}
	case 3:
		if ts, err := r.Tracestate.Insert("ot", fmt.Sprintf("th:%x", len(p.Links))); err == nil {
			r.Tracestate = ts
		}
	}
	return r
}

// open is a span that was started, and the context that holds it.
type open struct {
	ctx context.Context
	trace.Span
}

func (c *choices) run(ctx context.Context, e *Env) {
	spans := []open{{ctx, trace.SpanFromContext(ctx)}} // the first: no parent, and a span that ignores all calls
	for len(c.data) > 0 && len(spans) < 200 {
		at := spans[(len(spans)-1)-c.n(min(len(spans), 8))]
		if at.Span == spans[0].Span || c.n(4) == 0 {
			spans = append(spans, c.start(at.ctx, e))
			continue
		}
		c.change(at, spans)
	}
	for i, s := range spans { // some are never ended
		if i%7 != 6 {
			s.End()
		}
	}
}

func (c *choices) start(ctx context.Context, e *Env) open {
	tracer := e.Tracer([]string{"a", "b", ""}[c.n(3)], []trace.TracerOption{trace.WithInstrumentationVersion("1"), trace.WithSchemaURL("s"),
		trace.WithInstrumentationAttributes(c.attributes()...)}[:c.n(4)]...)
	if c.n(6) == 0 {
		ctx = trace.ContextWithRemoteSpanContext(ctx, c.spanContext())
	}
	var opts []trace.SpanStartOption
	for range c.n(4) {
		opts = append(opts, []func() trace.SpanStartOption{
			func() trace.SpanStartOption { return trace.WithAttributes(c.attributes()...) },
			func() trace.SpanStartOption { return trace.WithSpanKind(trace.SpanKind(c.n(9) - 1)) },
			func() trace.SpanStartOption { return trace.WithLinks(c.links()...) },
			func() trace.SpanStartOption { return trace.WithTimestamp(c.time()) },
			trace.WithNewRoot,
		}[c.n(5)]())
	}
	ctx, s := tracer.Start(ctx, c.text(), opts...)
	e.NoteSpan("started", s)
	return open{ctx, s}
}

func (c *choices) change(at open, all []open) {
	switch c.n(9) {
	case 0:
		at.SetName(c.text())
	case 1, 2:
		at.SetAttributes(c.attributes()...)
	case 3:
		at.SetStatus(codes.Code(c.n(4)), c.text())
	case 4:
		at.AddEvent(c.text(), c.eventOptions()...)
	case 5:
		for _, l := range c.links() {
			at.AddLink(l)
		}
	case 6:
		at.RecordError([]error{nil, errors.New(c.text()), fmt.Errorf("wrapped: %w", context.Canceled), context.DeadlineExceeded}[c.n(4)], c.eventOptions()...)
	case 7:
		at.AddLink(trace.LinkFromContext(all[c.n(min(len(all), 256))].ctx, c.attributes()...))
	case 8:
		if c.yes() {
			at.End(trace.WithTimestamp(c.time()))
		} else {
			at.End()
		}
	}
}

func (c *choices) eventOptions() []trace.EventOption {
	var opts []trace.EventOption
	for range c.n(4) {
		opts = append(opts, []func() trace.EventOption{
			func() trace.EventOption { return trace.WithAttributes(c.attributes()...) },
			func() trace.EventOption { return trace.WithTimestamp(c.time()) },
			func() trace.EventOption { return trace.WithStackTrace(c.yes()) },
		}[c.n(3)]())
	}
	return opts
}

func (c *choices) time() time.Time {
	if c.n(8) == 0 {
		return time.Time{} // by the clock
	}
	return At(time.Duration(c.n(256)-100) * time.Millisecond)
}

func (c *choices) spanContext() trace.SpanContext {
	states := []string{"", "a=1", "ot=th:c,b=2", "x@y=z", "vendor=1,ot=rv:00000000000001"}
	ts, err := trace.ParseTraceState(states[c.n(len(states))])
	if err != nil {
		panic(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: byte(c.n(3))}, SpanID: trace.SpanID{7: byte(c.n(3))},
		TraceFlags: trace.TraceFlags(c.byte()), TraceState: ts, Remote: c.yes()})
}

func (c *choices) links() []trace.Link {
	out := make([]trace.Link, c.n(4))
	for i := range out {
		out[i] = trace.Link{SpanContext: c.spanContext(), Attributes: c.attributes()}
	}
	return out
}

func (c *choices) text() string {
	texts := []string{"", "a", "ab", "GET /users", "äöü", "日本語", "🙂 mixed ä", "0123456789"}
	s := texts[c.n(len(texts))]
	if c.n(16) == 0 { // longer than any limit
		for range 5 {
			s += s
		}
	}
	return s
}

// attributes have few keys, so that they meet again.
func (c *choices) attributes() []attribute.KeyValue {
	out := make([]attribute.KeyValue, c.n(6))
	for i := range out {
		out[i] = attribute.KeyValue{Key: attribute.Key([]string{"a", "b", "c", "d", "e", "f", "longer.key", ""}[c.n(8)]), Value: c.value(4)}
	}
	return out
}

func (c *choices) value(depth int) attribute.Value {
	switch c.n(12) {
	case 0:
		return attribute.BoolValue(c.yes())
	case 1:
		return attribute.IntValue((c.n(256) - 128) << c.n(56))
	case 2:
		return attribute.Float64Value(float64(c.n(256)-128) / 3)
	case 3:
		return attribute.BoolSliceValue(make([]bool, c.n(6)))
	case 4:
		return attribute.IntSliceValue(make([]int, c.n(6)))
	case 5:
		return attribute.Float64SliceValue(make([]float64, c.n(6)))
	case 6:
		s := make([]string, c.n(6))
		for i := range s {
			s[i] = c.text()
		}
		return attribute.StringSliceValue(s)
	case 7:
		return attribute.ByteSliceValue([]byte(c.text()))
	case 8:
		return attribute.Value{}
	case 9:
		if depth > 0 {
			v := make([]attribute.Value, c.n(7))
			for i := range v {
				v[i] = c.value(depth - 1)
			}
			return attribute.SliceValue(v...)
		}
	case 10:
		if depth > 0 {
			kv := make([]attribute.KeyValue, c.n(7))
			for i := range kv {
				kv[i] = attribute.KeyValue{Key: attribute.Key([]string{"a", "b", "c", ""}[c.n(4)]), Value: c.value(depth - 1)}
			}
			return attribute.MapValue(kv...)
		}
	}
	return attribute.StringValue(c.text())
}
