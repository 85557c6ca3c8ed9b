package lean

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// everyParent has parents of all kinds: none, local and remote, sampled or not, half valid.
func everyParent() (all []trace.SpanContext) {
	state, err := trace.ParseTraceState("a=b")
	if err != nil {
		panic(err)
	}
	for i := range 64 {
		c := trace.SpanContextConfig{TraceFlags: trace.TraceFlags(i & 3), Remote: i&4 != 0}
		if i&8 != 0 {
			c.TraceID = trace.TraceID{15: 7}
		}
		if i&16 != 0 {
			c.SpanID = trace.SpanID{7: 7}
		}
		if i&32 != 0 {
			c.TraceState = state
		}
		all = append(all, trace.NewSpanContext(c))
	}
	return all
}

var sdkSamplers = []sdktrace.Sampler{
	sdktrace.AlwaysSample(), sdktrace.NeverSample(), sdktrace.TraceIDRatioBased(0.5),
	sdktrace.ParentBased(sdktrace.AlwaysSample()), sdktrace.ParentBased(sdktrace.NeverSample()),
	sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.25)),
}

// What a tracer makes of a parent must be what the SDK makes of it, with samplers that are taken
// apart as with those that are asked.
func TestDecisionsEqualSDK(t *testing.T) {
	for _, sampler := range sdkSamplers {
		sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)).Tracer("t")
		direct, _ := newProvider(t, WithSampler(sampler))
		if direct.known == nil {
			t.Errorf("%s is not recognized", sampler.Description())
		}
		asking, _ := newProvider(t, WithSampler(sampler))
		asking.known = nil
		for _, parent := range everyParent() {
			if !parent.HasTraceID() && !sdkSamplerIsConstant(sampler) {
				continue // a new trace's id decides
			}
			ctx := trace.ContextWithSpanContext(t.Context(), parent)
			_, s := sdk.Start(ctx, "n")
			want := s.SpanContext()
			for _, p := range []*TracerProvider{direct, asking} {
				_, s := p.Tracer("t").Start(ctx, "n")
				got := s.SpanContext()
				if got.TraceFlags() != want.TraceFlags() || got.TraceState().String() != want.TraceState().String() ||
					got.IsRemote() != want.IsRemote() || !got.IsValid() || parent.HasTraceID() && got.TraceID() != want.TraceID() ||
					got.SpanID() == parent.SpanID() {
					t.Errorf("%s, known %t, parent %+v: got %+v, want %+v", sampler.Description(), p.known != nil, parent, got, want)
				}
				s.End()
			}
		}
	}
}

func sdkSamplerIsConstant(s sdktrace.Sampler) bool {
	switch s.Description()[:6] {
	case "Always":
		return true
	}
	return s == sdkSamplers[3] || s == sdkSamplers[4]
}

// disguise looks like a sampler of the SDK's by its description.
type disguise struct{ sdktrace.Sampler }

func TestOnlyGenuineSamplersAreTakenApart(t *testing.T) {
	for _, s := range []sdktrace.Sampler{
		disguise{sdktrace.AlwaysSample()},
		sdktrace.ParentBased(disguise{sdktrace.AlwaysSample()}),
		sdktrace.ParentBased(sdktrace.AlwaysSample(), sdktrace.WithLocalParentNotSampled(sdktrace.AlwaysSample())),
		sdktrace.ParentBased(sdktrace.AlwaysSample(), sdktrace.WithRemoteParentSampled(disguise{sdktrace.AlwaysSample()})),
		sdktrace.AlwaysRecord(sdktrace.AlwaysSample()), odd{},
	} {
		if recognize(s) != nil {
			t.Errorf("%s (%T) was taken apart", s.Description(), s)
		}
	}
}

type withMethod struct {
	odd
	uses bool
}

func (w withMethod) UsesAttributes() bool { return w.uses }

func TestUsesAttributes(t *testing.T) {
	for _, s := range append(sdkSamplers, sdktrace.AlwaysRecord(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1e-9))),
		sdktrace.ParentBased(sdktrace.ParentBased(sdktrace.NeverSample())), withMethod{uses: false}) {
		if usesAttributes(s) {
			t.Errorf("%s", s.Description())
		}
	}
	for _, s := range []sdktrace.Sampler{odd{}, withMethod{uses: true}, sdktrace.ParentBased(odd{})} {
		if !usesAttributes(s) {
			t.Errorf("%s", s.Description())
		}
	}
}

func TestSamplerFromEnvironment(t *testing.T) {
	for _, c := range []struct{ name, arg, want string }{
		{"", "", sdktrace.ParentBased(sdktrace.AlwaysSample()).Description()},
		{"always_on", "", "AlwaysOnSampler"},
		{" Always_Off ", "", "AlwaysOffSampler"},
		{"traceidratio", "0.5", "TraceIDRatioBased{0.5}"},
		{"traceidratio", "", sdktrace.TraceIDRatioBased(1).Description()},
		{"traceidratio", "2", sdktrace.TraceIDRatioBased(1).Description()},
		{"parentbased_always_on", "", sdktrace.ParentBased(sdktrace.AlwaysSample()).Description()},
		{"parentbased_always_off", "", sdktrace.ParentBased(sdktrace.NeverSample()).Description()},
		{"parentbased_traceidratio", "0.1", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1)).Description()},
		{"parentbased_traceidratio", "x", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1)).Description()},
		{"nonsense", "", sdktrace.ParentBased(sdktrace.AlwaysSample()).Description()},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		errs := handled(t)
		assert.Equal(t, c.want, NewTracerProvider().Sampler().Description(), "%q %q", c.name, c.arg)
		if wrong := c.name == "nonsense" || c.arg == "x" || c.arg == "2"; wrong != (len(errs()) > 0) {
			t.Errorf("%q %q: reported %v", c.name, c.arg, errs())
		}
	}
}

// request is what an instrumentation allocates once: what it needs, and the span.
type request struct {
	span Span
	none Unrecorded
}

func TestInstrumentationsMemory(t *testing.T) {
	p, sink := newProvider(t, WithSampler(odd{}))
	tracer, ok := TracerOf(p, "t", trace.WithInstrumentationVersion("1"))
	if !ok || trace.Tracer(tracer) != p.Tracer("t", trace.WithInstrumentationVersion("1")) {
		t.Fatal("not the provider's tracer")
	}
	if _, ok := TracerOf(noop.NewTracerProvider(), "t"); ok {
		t.Error("a foreign provider was taken for lean's")
	}
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
	outer, _ := tracer.Start(t.Context(), "go")
	s := Start{
		Name: "nn", Kind: trace.SpanKindServer, Time: someTime, Remote: remote, // odd records and samples "nn"
		Attributes: []attribute.KeyValue{attribute.String("a", "b")}, Links: []trace.Link{{SpanContext: remote}},
	}
	var m request
	d := tracer.Decide(outer, &s)
	if !d.Recording() || d.SpanContext().TraceID() != remote.TraceID() {
		t.Fatalf("%+v", d)
	}
	ctx := tracer.StartIn(&m.span, outer, &s, &d)
	if trace.SpanFromContext(ctx) != trace.Span(&m.span) || m.span.SpanContext().SpanID() != d.SpanContext().SpanID() {
		t.Error("the context does not hold the span")
	}
	s.Attributes[0], s.Links[0] = attribute.KeyValue{}, trace.Link{} // may be reused
	m.span.End(trace.WithTimestamp(someTime))

	drop := Start{Name: "nnn", NewRoot: true, Remote: remote}
	d = tracer.Decide(ctx, &drop)
	if d.Recording() || d.SpanContext().TraceID() == remote.TraceID() {
		t.Errorf("%+v", d)
	}
	ctx = tracer.DropIn(&m.none, ctx, &d)
	if trace.SpanFromContext(ctx) != trace.Span(&m.none) || m.none.IsRecording() {
		t.Error("the context does not hold the span")
	}
	m.none.End()

	var got = flushed(t, p, sink)
	for _, g := range got {
		if g.Name != "nn" {
			continue
		}
		if string(g.ParentSpanId) != "\x02\x00\x00\x00\x00\x00\x00\x00" || g.Flags&0x200 == 0 || g.Kind != 2 ||
			attr(g.Attributes, "a").GetStringValue() != "b" || !attr(g.Attributes, "sampler.remote").GetBoolValue() ||
			g.Links[0].TraceId[0] != 1 || g.StartTimeUnixNano != uint64(someTime.UnixNano()) || g.TraceState != "odd=1" {
			t.Errorf("%v", g)
		}
		return
	}
	t.Errorf("no span nn in %v", got)
}

func TestClockFollowsSteps(t *testing.T) {
	c := newClock()
	if d := c.wall(c.monotonic()) - time.Now().UnixNano(); d > int64(time.Second) || d < -int64(time.Second) {
		t.Errorf("the clock is off by %d ns", d)
	}
	c.set(1_000_000, 10)
	assert.EqualValues(t, 1_000_010, c.wall(20), "wall time")
	c.set(500_000, 30) // the wall clock was put back
	assert.EqualValues(t, 500_010, c.wall(40), "after a step")
}

// A step while a span is open moves neither its length nor its events out of it.
func TestStepDuringASpan(t *testing.T) {
	p, s := newProvider(t)
	_, span := p.Tracer("t").Start(t.Context(), "n")
	start := time.Now()
	p.clock.set(0, p.clock.monotonic()) // 1970
	span.AddEvent("e")
	span.End()
	length := time.Since(start)
	got := flushed(t, p, s)[0]
	if got.EndTimeUnixNano < got.StartTimeUnixNano || got.EndTimeUnixNano-got.StartTimeUnixNano > uint64(length+time.Minute) ||
		got.Events[0].TimeUnixNano < got.StartTimeUnixNano || got.Events[0].TimeUnixNano > got.EndTimeUnixNano {
		t.Errorf("%v", got)
	}
	p.clock.anchor()
	assert.LessOrEqual(t, time.Duration(p.clock.wall(p.clock.monotonic())-time.Now().UnixNano()).Abs(), time.Second, "what the clock is off by")
}

// A given start and an end by the clock: the end is the present, as in the SDK, even if the start
// lies in the future.
func TestGivenStart(t *testing.T) {
	p, s := newProvider(t)
	for _, start := range []time.Time{
		time.Now().Add(time.Hour), time.Now().Add(-time.Hour), // with a monotonic reading
		time.Now().Add(time.Hour).Round(0), time.Now().Add(-time.Hour).Round(0), // without
	} {
		_, span := p.Tracer("t").Start(t.Context(), "n", trace.WithTimestamp(start))
		span.AddEvent("e")
		span.End()
	}
	for _, got := range flushed(t, p, s) {
		for _, at := range []uint64{got.EndTimeUnixNano, got.Events[0].TimeUnixNano} {
			if off := time.Since(time.Unix(0, int64(at))).Abs(); off > time.Minute {
				t.Errorf("off by %v: %v", off, got)
			}
		}
	}
}

func TestAfterShutdownTheCallersContextPasses(t *testing.T) {
	p, _ := newProvider(t)
	tracer := p.Tracer("t")
	require.NoError(t, p.Shutdown(context.Background()))
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
	_, s := tracer.Start(trace.ContextWithSpanContext(t.Context(), parent), "n")
	if s.IsRecording() || !s.SpanContext().Equal(parent) {
		t.Errorf("%v", s.SpanContext())
	}
	s.End()
	if _, s := p.Tracer("t").Start(t.Context(), "n"); s.IsRecording() {
		t.Error("recording")
	}
	if st := p.Stats(); st.Started != 0 {
		t.Errorf("%+v", st)
	}
}
