package contextaware

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/rule"
)

// documented is the text in the package's documentation.
const documented = `{"default": 0.05, "rules": [
  {"attributes": {"url.path": "/health*"}, "probability": 0},
  {"attributes": {"url.path": "/auth/**"}, "probability": 0},
  {"baggage": {"user.id": "~^(17|42)$"}, "probability": 1},
  {"name": "POST /orders", "kind": "server", "probability": 0.5}
]}`

func mustParse(t testing.TB, text string, opts ...Option) *Sampler {
	t.Helper()
	s, err := Parse([]byte(text), opts...)
	require.NoError(t, err)
	return s
}

func withBaggage(ctx context.Context, t testing.TB, key, value string) context.Context {
	t.Helper()
	m, err := baggage.NewMemberRaw(key, value)
	require.NoError(t, err)
	b, err := baggage.FromContext(ctx).SetMember(m)
	require.NoError(t, err)
	return baggage.ContextWithBaggage(ctx, b)
}

func withParent(ctx context.Context, t testing.TB, flags trace.TraceFlags, state string) context.Context {
	t.Helper()
	ts, err := trace.ParseTraceState(state)
	require.NoError(t, err)
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 9: 0xff}, SpanID: trace.SpanID{1}, TraceFlags: flags, TraceState: ts,
	}))
}

// probability returns the one that the sampler applies, found from outside: the
// th of the trace that is sampled most easily, and that the trace just below is
// dropped.
func probability(t testing.TB, s *Sampler, p sdktrace.SamplingParameters) float64 {
	t.Helper()
	id := func(r uint64) (id trace.TraceID) {
		id[0] = 1
		for i := range 7 {
			id[15-i] = byte(r >> (8 * i))
		}
		return id
	}
	p.TraceID = id(1<<56 - 1)
	r := s.ShouldSample(p)
	if r.Decision == sdktrace.Drop {
		assert.Zero(t, r.Tracestate.Len(), "a dropped root has the tracestate %v", r.Tracestate)
		return 0
	}
	th, ok := consistent.ThresholdOf(r.Tracestate)
	require.True(t, ok, "sampled without a threshold: %v", r.Tracestate)
	if p.TraceID = id(uint64(th)); s.ShouldSample(p).Decision != sdktrace.RecordAndSample {
		t.Errorf("dropped at its threshold %v", th)
	}
	if th > 0 {
		if p.TraceID = id(uint64(th) - 1); s.ShouldSample(p).Decision != sdktrace.Drop {
			t.Errorf("sampled below its threshold %v", th)
		}
	}
	return th.Probability()
}

func TestRules(t *testing.T) {
	s := mustParse(t, documented)
	bg := context.Background()
	path := func(s string) []attribute.KeyValue { return []attribute.KeyValue{attribute.String("url.path", s)} }
	for _, c := range []struct {
		name string
		p    sdktrace.SamplingParameters
		want float64
	}{
		{"default", sdktrace.SamplingParameters{ParentContext: bg, Name: "GET /"}, 0.05},
		{"no context", sdktrace.SamplingParameters{Name: "GET /"}, 0.05},
		{"never", sdktrace.SamplingParameters{ParentContext: bg, Attributes: path("/healthz")}, 0},
		{"never, before baggage", sdktrace.SamplingParameters{ParentContext: withBaggage(bg, t, "user.id", "42"), Attributes: path("/auth/login")}, 0},
		{"baggage", sdktrace.SamplingParameters{ParentContext: withBaggage(bg, t, "user.id", "42"), Attributes: path("/")}, 1},
		{"other user", sdktrace.SamplingParameters{ParentContext: withBaggage(bg, t, "user.id", "421")}, 0.05},
		{"other key", sdktrace.SamplingParameters{ParentContext: withBaggage(bg, t, "user", "42")}, 0.05},
		{"name and kind", sdktrace.SamplingParameters{ParentContext: bg, Name: "POST /orders", Kind: trace.SpanKindServer}, 0.5},
		{"name, other kind", sdktrace.SamplingParameters{ParentContext: bg, Name: "POST /orders", Kind: trace.SpanKindClient}, 0.05},
	} {
		if got := probability(t, s, c.p); math.Abs(got-c.want) > c.want/1000 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
	present := mustParse(t, `{"default":0,"rules":[{"baggage":{"user.id":"**"},"probability":1}]}`)
	for _, c := range []struct {
		ctx  context.Context
		want float64
	}{{nil, 0}, {bg, 0}, {withBaggage(bg, t, "other", "x"), 0}, {withBaggage(bg, t, "user.id", ""), 1}} {
		assert.Equal(t, c.want, probability(t, present, sdktrace.SamplingParameters{ParentContext: c.ctx}), "any user.id, baggage %q", c.ctx)
	}
	assert.True(t, s.UsesAttributes(), "two rules read attributes")
	assert.False(t, mustParse(t, `{"default":1,"rules":[{"name":"a","baggage":{"b":"c"},"probability":1}]}`).UsesAttributes(), "no rule reads attributes")
}

func TestParents(t *testing.T) {
	const text = `{"default":0.5,"rules":[{"name":"never","probability":0},{"name":"always","probability":1}]}`
	for _, c := range []struct {
		name  string
		flags trace.TraceFlags
		opts  []Option
		want  sdktrace.SamplingDecision
		state string
	}{
		{"never", 1, nil, sdktrace.RecordAndSample, "a=b,ot=th:c"},
		{"always", 0, nil, sdktrace.Drop, "a=b,ot=th:c"},
		{"never", 1, []Option{WithoutParent()}, sdktrace.Drop, "a=b"},
		{"always", 0, []Option{WithoutParent()}, sdktrace.RecordAndSample, "ot=th:0,a=b"},
		{"other", 0, []Option{WithoutParent()}, sdktrace.RecordAndSample, "ot=th:8,a=b"},
	} {
		ctx := withParent(context.Background(), t, c.flags, "a=b,ot=th:c")
		r := mustParse(t, text, c.opts...).ShouldSample(sdktrace.SamplingParameters{
			ParentContext: ctx, Name: c.name, TraceID: trace.SpanContextFromContext(ctx).TraceID(),
		})
		if r.Decision != c.want || r.Tracestate.String() != c.state {
			t.Errorf("%s, flags %v, %d options: %v %q, want %v %q", c.name, c.flags, len(c.opts), r.Decision, r.Tracestate, c.want, c.state)
		}
	}
}

type tenant struct{}

func TestWithProbability(t *testing.T) {
	s := mustParse(t, documented, WithProbability(func(ctx context.Context) (float64, bool) {
		p, ok := ctx.Value(tenant{}).(float64)
		return p, ok
	}))
	for _, c := range []struct{ asked, want float64 }{
		{0.25, 0.25}, {0.25, 0.25}, {1, 1}, {7, 1}, {0, 0}, {-1, 0}, {math.NaN(), 0},
	} {
		p := sdktrace.SamplingParameters{ParentContext: context.WithValue(context.Background(), tenant{}, c.asked)}
		assert.Equal(t, c.want, probability(t, s, p), "asked for %g", c.asked)
	}
	if got := probability(t, s, sdktrace.SamplingParameters{}); math.Abs(got-0.05) > 0.0001 {
		t.Errorf("not asked: %g", got)
	}
	// More different probabilities than are kept ready.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				want := float64(i+1) / 512
				p := sdktrace.SamplingParameters{ParentContext: context.WithValue(context.Background(), tenant{}, want)}
				if got := probability(t, s, p); math.Abs(got-want) > want/1000 {
					t.Errorf("asked for %g: %g", want, got)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, len(*s.asked.ready.Load()), maxRates, "rates that are kept")
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	_, err := New(1.5, []Rule{
		{Probability: 0.5},
		{Spec: rule.Spec{Name: "~("}, Probability: math.NaN()},
		{Baggage: map[string]string{"user": "", "": "x"}, Probability: -1},
	})
	for _, want := range []string{
		"default: 1.5 is not between 0 (never) and 1 (always)",
		`rule 2 {"name":"~("}: probability: NaN is not`, `name: pattern "~("`,
		"rule 3 {} baggage", "probability: -1", "baggage user: the pattern is empty", "baggage: a key is empty",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestDescription(t *testing.T) {
	for want, s := range map[string]*Sampler{
		"ParentBased{root:ContextAware{rules:4,default:0.05}}": mustParse(t, documented),
		"ContextAware{rules:0,default:1}":                      mustParse(t, `{"default":1}`, WithoutParent()),
	} {
		assert.Equal(t, want, s.Description())
	}
}

func TestSDK(t *testing.T) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(mustParse(t, `{"default":0,"rules":[{"attributes":{"a":"b"},"probability":1}]}`)))
	for _, want := range []bool{true, false} {
		value := map[bool]string{true: "b", false: "c"}[want]
		ctx, root := tp.Tracer("t").Start(context.Background(), "root", trace.WithAttributes(attribute.String("a", value)))
		_, child := tp.Tracer("t").Start(ctx, "child")
		if root.SpanContext().IsSampled() != want || child.SpanContext().IsSampled() != want {
			t.Errorf("%s: root %v, child %v", value, root.SpanContext().IsSampled(), child.SpanContext().IsSampled())
		}
	}
}
