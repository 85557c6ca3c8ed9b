package lean

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// randomProgram is the same sequence of calls for the same seed.
type randomProgram struct {
	r  *rand.Rand
	at time.Time
}

var words = []string{"", "a", "http.route", "url.path", "peer.service", "größe", "日本語", "\U0001F600", "k1", "k2", "k3", "k4"}

func (g *randomProgram) text() string {
	s := words[g.r.IntN(len(words))]
	switch g.r.IntN(12) {
	case 0:
		return strings.Repeat(s, g.r.IntN(200))
	case 1:
		return fmt.Sprint(s, g.r.IntN(1000))
	}
	return s
}

func (g *randomProgram) value(depth int) attribute.Value {
	n := g.r.IntN(6)
	kinds := 12
	if depth > 6 {
		kinds = 9
	}
	switch g.r.IntN(kinds) {
	case 0:
		return attribute.Value{}
	case 1:
		return attribute.BoolValue(n < 3)
	case 2:
		return attribute.Int64Value([]int64{0, 1, -1, 127, 128, math.MaxInt64, math.MinInt64}[g.r.IntN(7)])
	case 3:
		return attribute.Float64Value([]float64{0, -0.5, math.Inf(1), math.MaxFloat64}[g.r.IntN(4)])
	case 4:
		return attribute.BoolSliceValue(make([]bool, n))
	case 5:
		v := make([]int64, n)
		for i := range v {
			v[i] = g.r.Int64() >> g.r.IntN(64)
		}
		return attribute.Int64SliceValue(v)
	case 6:
		return attribute.Float64SliceValue(make([]float64, n))
	case 7:
		v := make([]string, n)
		for i := range v {
			v[i] = g.text()
		}
		return attribute.StringSliceValue(v)
	case 8:
		return attribute.ByteSliceValue([]byte(g.text()))
	case 9:
		v := make([]attribute.Value, n)
		for i := range v {
			v[i] = g.value(depth + 1)
		}
		return attribute.SliceValue(v...)
	case 10:
		v := make([]attribute.KeyValue, n)
		for i := range v {
			v[i] = attribute.KeyValue{Key: attribute.Key(g.text()), Value: g.value(depth + 1)}
		}
		return attribute.MapValue(v...)
	}
	return attribute.StringValue(g.text())
}

func (g *randomProgram) attributes() []attribute.KeyValue {
	kvs := make([]attribute.KeyValue, g.r.IntN(8))
	for i := range kvs {
		kvs[i] = attribute.KeyValue{Key: attribute.Key(g.text()), Value: g.value(0)}
		if g.r.IntN(2) == 0 {
			kvs[i].Value = attribute.StringValue(g.text())
		}
	}
	return kvs
}

func (g *randomProgram) time() time.Time {
	g.at = g.at.Add(time.Duration(g.r.IntN(1000)) * time.Microsecond)
	return g.at
}

func (g *randomProgram) remote() trace.SpanContext {
	var c trace.SpanContextConfig
	for i := range c.TraceID {
		c.TraceID[i] = byte(g.r.Uint32())
	}
	for i := range c.SpanID {
		c.SpanID[i] = byte(g.r.Uint32())
	}
	c.TraceFlags = trace.TraceFlags(g.r.Uint32())
	if g.r.IntN(2) == 0 {
		c.TraceState, _ = trace.ParseTraceState("vendor=1,ot=rv:00000000000001")
	}
	switch g.r.IntN(8) {
	case 0:
		c.SpanID = trace.SpanID{}
	case 1:
		c.TraceID = trace.TraceID{}
	}
	c.Remote = g.r.IntN(2) == 0
	return trace.NewSpanContext(c)
}

func (g *randomProgram) link() trace.Link {
	l := trace.Link{SpanContext: g.remote(), Attributes: g.attributes()}
	if g.r.IntN(5) == 0 {
		l.SpanContext = trace.SpanContext{}
	}
	return l
}

func (g *randomProgram) run(tp trace.TracerProvider) {
	tracers := []trace.Tracer{
		tp.Tracer(""),
		tp.Tracer("one", trace.WithInstrumentationVersion("v1.2.3"), trace.WithSchemaURL("https://example.org/1"),
			trace.WithInstrumentationAttributes(attribute.Int("n", 1), attribute.Map("m", attribute.Int("x", 1), attribute.Int("x", 2)))),
	}
	type open struct {
		ctx context.Context
		s   trace.Span
	}
	spans := []open{{context.Background(), trace.SpanFromContext(context.Background())}}
	for range 20 + g.r.IntN(40) {
		parent := spans[g.r.IntN(len(spans))]
		ctx := parent.ctx
		switch g.r.IntN(10) {
		case 0:
			ctx = trace.ContextWithSpanContext(ctx, g.remote())
		case 1:
			ctx = trace.ContextWithRemoteSpanContext(ctx, g.remote())
		}
		opts := []trace.SpanStartOption{trace.WithTimestamp(g.time())}
		if g.r.IntN(2) == 0 {
			opts = append(opts, trace.WithSpanKind(trace.SpanKind(g.r.IntN(8)-1)))
		}
		for range g.r.IntN(3) {
			opts = append(opts, trace.WithAttributes(g.attributes()...))
		}
		if g.r.IntN(4) == 0 {
			opts = append(opts, trace.WithLinks(g.link(), g.link()))
		}
		if g.r.IntN(8) == 0 {
			opts = append(opts, trace.WithNewRoot())
		}
		ctx, s := tracers[g.r.IntN(len(tracers))].Start(ctx, g.text(), opts...)
		for range g.r.IntN(12) {
			g.call(s)
		}
		spans = append(spans, open{ctx, s})
		if g.r.IntN(2) == 0 {
			s.End(trace.WithTimestamp(g.time()))
			g.call(s) // too late
		}
	}
	for _, o := range spans {
		g.call(o.s)
		o.s.End(trace.WithTimestamp(g.time()))
	}
}

func (g *randomProgram) call(s trace.Span) {
	switch g.r.IntN(9) {
	case 0, 1, 2:
		s.SetAttributes(g.attributes()...)
	case 3:
		s.AddEvent(g.text(), trace.WithTimestamp(g.time()), trace.WithAttributes(g.attributes()...))
	case 4:
		s.AddLink(g.link())
	case 5:
		s.SetStatus(codes.Code(g.r.IntN(3)), g.text())
	case 6:
		s.SetName(g.text())
	case 7:
		s.RecordError(errors.New(g.text()), trace.WithTimestamp(g.time()), trace.WithAttributes(g.attributes()...))
	case 8:
		s.RecordError(nil)
		s.SetAttributes()
	}
}

func (g *randomProgram) limits() sdktrace.SpanLimits {
	l := sdktrace.NewSpanLimits()
	limit := func(v *int) {
		if g.r.IntN(3) == 0 {
			*v = g.r.IntN(6) - 1
		}
	}
	limit(&l.AttributeCountLimit)
	limit(&l.AttributeValueLengthLimit)
	limit(&l.AttributeValueDepthLimit)
	limit(&l.EventCountLimit)
	limit(&l.LinkCountLimit)
	limit(&l.AttributePerEventCountLimit)
	limit(&l.AttributePerLinkCountLimit)
	return l
}

// odd is a sampler that uses everything that a sampler can answer.
type odd struct{}

func (odd) Description() string { return "odd" }
func (odd) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	r := sdktrace.SamplingResult{Tracestate: parent.TraceState(), Decision: sdktrace.SamplingDecision(len(p.Name) % 3)}
	if r.Decision != sdktrace.Drop {
		r.Attributes = []attribute.KeyValue{
			attribute.Bool("sampler.remote", parent.IsRemote()), attribute.Int("k1", len(p.Attributes)),
			attribute.String("sampler.parent", parent.SpanID().String()), attribute.Int("sampler.links", len(p.Links)),
		}
		r.Tracestate, _ = r.Tracestate.Insert("odd", "1")
	}
	return r
}

// checkEqual compares what two pipelines have made: resource and scope of each span, and the span.
func checkEqual(t testing.TB, want, got []*tracepb.ResourceSpans) {
	t.Helper()
	w, g := bySpan(want), bySpan(got)
	for id, span := range w {
		if g[id] == nil {
			t.Errorf("span %x is missing", id)
		} else if !proto.Equal(span, g[id]) {
			t.Errorf("span %x differs; want\n%s\ngot\n%s", id, prototext.Format(span), prototext.Format(g[id]))
		}
	}
	for id, span := range g {
		if w[id] == nil {
			t.Errorf("span %x is too much:\n%s", id, prototext.Format(span))
		}
	}
}

// bySpan makes a message of its own of each span, with its resource and scope.
func bySpan(all []*tracepb.ResourceSpans) map[string]*tracepb.ResourceSpans {
	m := make(map[string]*tracepb.ResourceSpans)
	for _, r := range all {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				m[string(span.SpanId)] = &tracepb.ResourceSpans{
					Resource: r.Resource, SchemaUrl: r.SchemaUrl,
					ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.Scope, SchemaUrl: s.SchemaUrl, Spans: []*tracepb.Span{span}}},
				}
			}
		}
	}
	return m
}

func checkProgram(t testing.TB, seed1, seed2 uint64) {
	t.Helper()
	program := func(tp trace.TracerProvider) {
		(&randomProgram{r: rand.New(rand.NewPCG(seed1, seed2)), at: time.Unix(1700000000, 123456789)}).run(tp)
	}
	g := &randomProgram{r: rand.New(rand.NewPCG(seed2, seed1))}
	limits := g.limits()
	sampler := []sdktrace.Sampler{
		sdktrace.ParentBased(sdktrace.AlwaysSample()), odd{}, sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)),
		sdktrace.AlwaysRecord(sdktrace.NeverSample()),
	}[g.r.IntN(4)]
	res := resource.NewWithAttributes("https://example.org/resource", append(g.attributes(), attribute.String("service.name", "test"))...)
	want := official(t, program, sdktrace.WithRawSpanLimits(limits), sdktrace.WithSampler(sampler),
		sdktrace.WithResource(res), sdktrace.WithIDGenerator(new(counter)))
	got := leanly(t, program, WithSpanLimits(limits), WithSampler(sampler), WithResource(res), WithIDGenerator(new(counter)))
	checkEqual(t, want, got)
	if t.Failed() {
		t.Logf("seeds %d, %d; limits %+v; sampler %s", seed1, seed2, limits, sampler.Description())
	}
}

// TestEqualToSDK runs random programs on the SDK with the official exporter's encoding, and here.
func TestEqualToSDK(t *testing.T) {
	n := uint64(100)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		if checkProgram(t, seed, 1); t.Failed() {
			return
		}
	}
}

func FuzzEqualToSDK(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(1<<63), uint64(0))
	f.Fuzz(func(t *testing.T, a, b uint64) { checkProgram(t, a, b) })
}
