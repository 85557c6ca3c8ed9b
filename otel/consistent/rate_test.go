package consistent

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func idOf(r Randomness) (id trace.TraceID) {
	id[0] = 1
	binary.BigEndian.PutUint64(id[8:], uint64(r)|0xab<<56) // the first of the 8 bytes does not count
	return id
}

func parentOf(t testing.TB, id trace.TraceID, flags trace.TraceFlags, state string) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: flags, TraceState: parse(t, state), Remote: true,
	})
}

func TestRateDecides(t *testing.T) {
	rate := NewRate(0.25) // th:c
	const in, out = Randomness(0xc << 52), Randomness(0xc<<52 - 1)
	for _, c := range []struct {
		name   string
		id     Randomness
		parent string // tracestate; - for none
		want   sdktrace.SamplingDecision
		state  string
	}{
		{"root in", in, "-", sdktrace.RecordAndSample, "ot=th:c"},
		{"root out", out, "-", sdktrace.Drop, ""},
		{"rv says in", out, "ot=rv:ffffffffffffff", sdktrace.RecordAndSample, "ot=th:c;rv:ffffffffffffff"},
		{"rv says out", in, "a=b,ot=rv:00000000000000", sdktrace.Drop, "a=b,ot=rv:00000000000000"},
		{"parent's th is replaced", in, "ot=th:8,a=b", sdktrace.RecordAndSample, "ot=th:c,a=b"},
		{"parent's th is erased", out, "ot=th:8,a=b", sdktrace.Drop, "a=b"},
	} {
		ctx := context.Background()
		if c.parent != "-" {
			ctx = trace.ContextWithSpanContext(ctx, parentOf(t, idOf(c.id), 0, c.parent))
		}
		got := rate.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: idOf(c.id)})
		if got.Decision != c.want || got.Tracestate.String() != c.state {
			t.Errorf("%s: %v %q, want %v %q", c.name, got.Decision, got.Tracestate, c.want, c.state)
		}
	}
}

func TestFollowParent(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags trace.TraceFlags
		state string
		want  sdktrace.SamplingDecision
		after string
	}{
		{"sampled", 1, "a=b", sdktrace.RecordAndSample, "a=b"},
		{"sampled, th agrees", 1, "a=b,ot=th:c", sdktrace.RecordAndSample, "a=b,ot=th:c"},
		{"sampled, th contradicts", 1, "a=b,ot=th:d", sdktrace.RecordAndSample, "a=b"},
		{"sampled, th contradicts rv", 1, "ot=th:c;rv:00000000000000", sdktrace.RecordAndSample, "ot=rv:00000000000000"},
		{"dropped", 0, "", sdktrace.Drop, ""},
		{"dropped, th", 0, "ot=th:d", sdktrace.Drop, "ot=th:d"},
	} {
		psc := parentOf(t, idOf(0xc<<52), c.flags, c.state)
		got := ParentBased(NewRate(0)).ShouldSample(sdktrace.SamplingParameters{
			ParentContext: trace.ContextWithSpanContext(context.Background(), psc), TraceID: psc.TraceID(),
		})
		if got.Decision != c.want || got.Tracestate.String() != c.after {
			t.Errorf("%s: %v %q, want %v %q", c.name, got.Decision, got.Tracestate, c.want, c.after)
		}
	}
}

// Services with different rates on the SDK: counts scale back, and what the
// rarer one samples, the other does.
func TestCountsScaleBackAndServicesAgree(t *testing.T) {
	const n = 200_000
	ids := rand.New(rand.NewPCG(7, 8))
	rare, often := NewRate(0.03), NewRate(0.2)
	counts := [2]float64{}
	for range n {
		var id trace.TraceID
		binary.BigEndian.PutUint64(id[:], ids.Uint64())
		binary.BigEndian.PutUint64(id[8:], ids.Uint64())
		a, b := rare.Decide(trace.SpanContext{}, id), often.Decide(trace.SpanContext{}, id)
		if a.Decision == sdktrace.RecordAndSample && b.Decision == sdktrace.Drop {
			t.Fatalf("%v is sampled at 3%% and not at 20%%", id)
		}
		for i, r := range []sdktrace.SamplingResult{a, b} {
			if th, ok := ThresholdOf(r.Tracestate); ok {
				counts[i] += AdjustedCount(th)
			} else if r.Decision == sdktrace.RecordAndSample {
				t.Fatal("a sampled span without a threshold")
			}
		}
	}
	for i, p := range []float64{0.03, 0.2} {
		if sd := math.Sqrt(n * (1 - p) / p); math.Abs(counts[i]-n) > 5*sd {
			t.Errorf("at %g the sampled stand for %.0f of %d (sd %.0f)", p, counts[i], n, sd)
		}
	}
}

func TestSDKStartsSpansWithTheThreshold(t *testing.T) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(ParentBased(NewRate(1))))
	ctx, root := tp.Tracer("t").Start(context.Background(), "root")
	_, child := tp.Tracer("t").Start(ctx, "child")
	for _, s := range []trace.Span{root, child} {
		if got := s.SpanContext().TraceState().String(); got != "ot=th:0" || !s.SpanContext().IsSampled() {
			t.Errorf("tracestate %q, sampled %v", got, s.SpanContext().IsSampled())
		}
	}
}

func TestDescriptions(t *testing.T) {
	for want, s := range map[string]sdktrace.Sampler{
		"ConsistentProbability{0.05}":                              NewRate(0.05),
		"ConsistentProbability{1}":                                 NewRate(1),
		"ConsistentProbability{0}":                                 NewRate(0),
		"ConsistentParentBased{root:ConsistentProbability{1e-06}}": ParentBased(NewRate(1e-6)),
	} {
		assert.Equal(t, want, s.Description())
	}
	assert.False(t, ParentBased(NewRate(1)).(*parentBased).UsesAttributes(), "a rate needs no attributes")
	assert.True(t, ParentBased(sdktrace.AlwaysSample()).(*parentBased).UsesAttributes(), "nobody knows what an unknown sampler needs")
}
