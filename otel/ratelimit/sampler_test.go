package ratelimit

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func remote(t testing.TB, flags trace.TraceFlags, state string) context.Context {
	t.Helper()
	ts, err := trace.ParseTraceState(state)
	require.NoError(t, err)
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 15: 1}, SpanID: trace.SpanID{1}, TraceFlags: flags, TraceState: ts,
	}))
}

// at returns a sampler whose clock is the variable.
func at(now *int64, limit float64, opts ...Option) *Sampler {
	s := New(limit, opts...)
	s.clock = func() int64 { return *now }
	return s
}

func sampled(ctx context.Context, s *Sampler) (bool, string) {
	r := s.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: trace.TraceID{1, 8: 0, 9: 0xff, 10: 0xff}})
	return r.Decision == sdktrace.RecordAndSample, r.Tracestate.String()
}

func TestLeaky(t *testing.T) {
	var now int64
	s := at(&now, 2)
	for i, want := range []bool{true, true, false, false} {
		if got, state := sampled(context.Background(), s); got != want || state != "" {
			t.Errorf("span %d: %v %q", i, got, state)
		}
	}
	now = second / 2
	if got, _ := sampled(context.Background(), s); !got {
		t.Error("no token after half a second")
	}
	assert.Equal(t, (Stats{Sampled: 3}), s.Stats())
}

func TestParents(t *testing.T) {
	var now int64
	for _, m := range []Mode{Leaky, Consistent} {
		s := at(&now, 1, WithMode(m), WithBurst(1))
		for range 10 {
			if got, state := sampled(remote(t, 1, "a=b,ot=th:0"), s); !got || state != "a=b,ot=th:0" {
				t.Fatalf("%v: sampled parent: %v %q", m, got, state)
			}
			if got, state := sampled(remote(t, 0, "a=b"), s); got || state != "a=b" {
				t.Fatalf("%v: dropped parent: %v %q", m, got, state)
			}
		}
		if st := s.Stats(); st.Sampled != 0 {
			t.Errorf("%v: parents took %d tokens", m, st.Sampled)
		}
		alone := at(&now, 1, WithMode(m), WithBurst(1), WithoutParent())
		after := map[Mode]string{Leaky: "a=b", Consistent: "ot=th:0,a=b"}[m]
		if got, state := sampled(remote(t, 0, "a=b,ot=th:8"), alone); !got || state != after {
			t.Errorf("%v without parent: %v %q, want %q", m, got, state, after)
		}
		if got, state := sampled(remote(t, 1, "a=b,ot=th:0"), alone); got || state != "a=b" {
			t.Errorf("%v without parent, no token: %v %q", m, got, state)
		}
	}
}

func TestLimitsThatAreNone(t *testing.T) {
	var now int64
	for _, limit := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		for _, m := range []Mode{Leaky, Consistent} {
			if got, _ := sampled(context.Background(), at(&now, limit, WithMode(m))); got {
				t.Errorf("limit %g, %v: sampled", limit, m)
			}
		}
	}
	for _, limit := range []float64{2e9, math.Inf(1)} {
		s := at(&now, limit)
		for range 1000 {
			if got, _ := sampled(context.Background(), s); !got {
				t.Fatalf("limit %g: dropped", limit)
			}
		}
	}
}

func TestRealClock(t *testing.T) {
	s := New(1e-6, WithBurst(5)) // one in eleven days
	n := 0
	for range 1000 {
		if got, _ := sampled(context.Background(), s); got {
			n++
		}
	}
	assert.Equal(t, 5, n, "of a burst of 5")
}

func TestConcurrentDecisionsStayWithinTheLimit(t *testing.T) {
	for _, m := range []Mode{Leaky, Consistent} {
		const limit, burst = 100, 30
		s := New(limit, WithBurst(burst), WithMode(m))
		var clock, n, tick atomic.Int64
		s.clock = clock.Load
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 10_000 {
					clock.Add(second / 10_000) // 80,000 in 8 s
					id := trace.TraceID{1}
					h := uint64(tick.Add(1)) * 0x9e3779b97f4a7c15
					for i := range 8 {
						id[8+i] = byte(h >> (8 * i))
					}
					if s.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdktrace.RecordAndSample {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
		most := burst + limit*clock.Load()/second
		if n.Load() > most || n.Load() < most/4 || s.Stats().Sampled != uint64(n.Load()) {
			t.Errorf("%v: %d sampled (%+v), at most %d are allowed", m, n.Load(), s.Stats(), most)
		}
	}
}

func TestDescriptions(t *testing.T) {
	for want, s := range map[string]*Sampler{
		"ParentBased{root:RateLimiting{100,burst:100,mode:leaky}}": New(100),
		"ParentBased{root:RateLimiting{0.1,burst:1,mode:leaky}}":   New(0.1, WithMode(7)),
		"RateLimiting{2.5,burst:7,mode:consistent}":                New(2.5, WithBurst(7), WithMode(Consistent), WithoutParent()),
		"ParentBased{root:RateLimiting{0,burst:1,mode:leaky}}":     New(math.NaN(), WithBurst(0)),
	} {
		assert.Equal(t, want, s.Description())
		assert.False(t, s.UsesAttributes(), "attributes are not used")
	}
	assert.Equal(t, "Mode(7)", Mode(7).String())
}

func TestSDK(t *testing.T) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(New(1e-6)))
	for i, want := range []bool{true, false} {
		ctx, root := tp.Tracer("t").Start(context.Background(), "root")
		_, child := tp.Tracer("t").Start(ctx, "child")
		if root.SpanContext().IsSampled() != want || child.SpanContext().IsSampled() != want {
			t.Errorf("trace %d: root %v, child %v", i, root.SpanContext().IsSampled(), child.SpanContext().IsSampled())
		}
	}
}
