package lean

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

// keepProgram runs local traces, several at a time, with failures, delays, server errors and spans
// that end after their root.
func keepProgram(seed uint64) func(trace.TracerProvider) {
	return func(tp trace.TracerProvider) {
		r := rand.New(rand.NewPCG(seed, 3))
		tracers := []trace.Tracer{tp.Tracer("a"), tp.Tracer("b")}
		type open struct {
			ctx context.Context
			s   trace.Span
		}
		var traces [][]open
		at := someTime
		for step := range 400 {
			at = at.Add(time.Duration(r.IntN(2000)) * time.Microsecond)
			if len(traces) < 3 || r.IntN(6) == 0 {
				ctx := context.Background()
				if r.IntN(2) == 0 {
					c := trace.SpanContextConfig{TraceID: trace.TraceID{0: byte(step), 1: byte(step >> 8), 8: byte(r.Uint32()), 15: 1},
						SpanID: trace.SpanID{1}, TraceFlags: trace.TraceFlags(r.IntN(2))}
					c.TraceState, _ = trace.ParseTraceState([]string{"", "ot=th:8,v=1", "v=1"}[r.IntN(3)])
					ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(c))
				}
				ctx, s := tracers[r.IntN(2)].Start(ctx, fmt.Sprint("root", r.IntN(3)), trace.WithTimestamp(at),
					trace.WithSpanKind(trace.SpanKindServer))
				traces = append(traces, []open{{ctx, s}})
				continue
			}
			i := r.IntN(len(traces))
			t := traces[i]
			switch r.IntN(5) {
			case 0, 1:
				ctx, s := tracers[r.IntN(2)].Start(t[r.IntN(len(t))].ctx, "child", trace.WithTimestamp(at),
					trace.WithAttributes(attribute.Int("n", r.IntN(20)), attribute.StringSlice("l", []string{"x", "y"})))
				traces[i] = append(t, open{ctx, s})
			case 2, 3:
				o := t[r.IntN(len(t))]
				if r.IntN(12) == 0 {
					o.s.SetStatus(codes.Error, "failed")
				}
				o.s.SetAttributes(attribute.Int("http.response.status_code", []int{200, 404, 500}[r.IntN(3)]))
				o.s.End(trace.WithTimestamp(at))
			case 4: // the root ends first, the others late
				for _, o := range t {
					o.s.End(trace.WithTimestamp(at))
				}
				traces = append(traces[:i], traces[i+1:]...)
			}
		}
		for _, t := range traces {
			for _, o := range t {
				o.s.End(trace.WithTimestamp(at))
			}
		}
	}
}

func mustRule(t testing.TB, text string) *rule.Rule {
	t.Helper()
	r, err := rule.Parse([]byte(text))
	require.NoError(t, err)
	return r
}

// TestKeepEqualsProcessor runs the same local traces through keep.Processor on the SDK: the same
// spans must be exported, with the same trace state and flags.
func TestKeepEqualsProcessor(t *testing.T) {
	policies := map[string]keep.Policy{
		"nothing":           {},
		"errors":            {Errors: true},
		"server errors":     {ServerErrors: true},
		"slow":              {SlowerThan: 20 * time.Millisecond, SlowerThanByName: map[string]time.Duration{"root1": time.Millisecond}},
		"rule by attribute": {Rules: []*rule.Rule{mustRule(t, `{"name":"child","attributes":{"n":"7"}}`)}},
		"rule by name":      {Rules: []*rule.Rule{mustRule(t, `{"name":"root2","kind":"server"}`)}},
		"few spans":         {Errors: true, MaxSpansPerTrace: 1},
		"everything":        {Errors: true, ServerErrors: true, SlowerThan: 50 * time.Millisecond},
	}
	for name, policy := range policies {
		for _, exact := range []bool{false, true} {
			policy.ExactCounts = exact
			t.Run(fmt.Sprint(name, " exact=", exact), func(t *testing.T) {
				kept := 0
				for seed := range uint64(8) {
					head := sdktrace.TraceIDRatioBased(0.2)
					client := new(officialClient)
					exporter, err := otlptrace.New(t.Context(), client)
					require.NoError(t, err)
					processor, err := keep.NewProcessor(sdktrace.NewBatchSpanProcessor(exporter), policy)
					require.NoError(t, err)
					sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(head)), sdktrace.WithSpanProcessor(processor),
						sdktrace.WithIDGenerator(new(counter)))
					keepProgram(seed)(sdk)
					require.NoError(t, sdk.Shutdown(context.Background()))
					s := new(sink)
					p := NewTracerProvider(WithExporter(s), WithSampler(head), WithIDGenerator(new(counter)), WithKeep(policy))
					keepProgram(seed)(p)
					require.NoError(t, p.Shutdown(context.Background()))
					checkEqual(t, client.all, s.resourceSpans(t))
					st, want := p.KeepStats(), processor.Stats()
					if st.SpansKept != want.SpansKept || st.TracesKept != want.TracesKept || st.TracesPartial != want.TracesPartial ||
						st.BufferedSpans != 0 || st.BufferedBytes != 0 || st.OpenTraces != 0 {
						t.Errorf("counted %+v\nprocessor %+v", st, want)
					}
					checkSum(t, p)
					kept += len(s.spans(t))
					if t.Failed() {
						t.Fatal("seed", seed)
					}
				}
				if kept == 0 {
					t.Error("nothing was exported: the test says nothing")
				}
			})
		}
	}
}

func keeping(t testing.TB, policy keep.Policy, opts ...Option) (*TracerProvider, *sink) {
	t.Helper()
	return newProvider(t, append([]Option{WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())), WithKeep(policy)}, opts...)...)
}

func TestKeepOnTheShortWay(t *testing.T) {
	p, s := keeping(t, keep.Policy{Errors: true, ExactCounts: true})
	if p.known == nil {
		t.Error("the SDK's sampler is asked, though it is known")
	}
	for _, fails := range []bool{true, false} {
		ctx, root := p.Tracer("t").Start(t.Context(), "root")
		_, child := p.Tracer("t").Start(ctx, "child")
		if !child.IsRecording() || child.SpanContext().IsSampled() || root.SpanContext().IsSampled() {
			t.Error("what the head dropped must be recorded, and passed on as not sampled")
		}
		if fails {
			child.SetStatus(codes.Error, "x")
		}
		child.End()
		_, late := p.Tracer("t").Start(ctx, "late")
		root.End()
		late.End()
	}
	got := flushed(t, p, s)
	require.Len(t, got, 3, "spans")
	for _, g := range got {
		if g.Flags&1 == 0 || g.TraceState != "ot=th:0" {
			t.Errorf("%v", g)
		}
	}
}

func TestKeepBounds(t *testing.T) {
	for name, c := range map[string]struct {
		policy keep.Policy
		cause  keep.Cause
	}{
		"traces": {keep.Policy{Errors: true, MaxTraces: 4}, keep.TooManyOpen},
		"bytes":  {keep.Policy{Errors: true, MaxBytes: 4000}, keep.TooManyBytes},
		"spans":  {keep.Policy{Errors: true, MaxSpansPerTrace: 2}, keep.TooManySpans},
		"age":    {keep.Policy{Errors: true, MaxAge: time.Millisecond}, keep.TooOld},
	} {
		t.Run(name, func(t *testing.T) {
			handled(t)
			p, s := keeping(t, c.policy)
			var roots []trace.Span
			for i := range 20 {
				ctx, root := p.Tracer("t").Start(t.Context(), "root")
				for range 5 {
					_, child := p.Tracer("t").Start(ctx, "child")
					child.End()
				}
				if i%2 == 0 {
					root.SetStatus(codes.Error, "x")
				}
				roots = append(roots, root)
				if st := p.KeepStats(); name == "bytes" && st.BufferedBytes > 4000 || name == "traces" && st.OpenTraces > 4 {
					t.Errorf("over the bound: %+v", st)
				}
			}
			for name == "age" && p.KeepStats().OpenTraces > 0 {
				time.Sleep(time.Millisecond)
			}
			for _, root := range roots {
				root.End()
			}
			st := p.KeepStats()
			if st.SpansDropped[c.cause] == 0 || st.TracesKept[keep.Failed] != 10 || st.TracesPartial == 0 {
				t.Errorf("%+v", st)
			}
			failed := 0
			for _, g := range flushed(t, p, s) {
				if g.Name == "root" {
					failed++
				}
			}
			assert.Equal(t, 10, failed, "failed roots were exported")
			if st := checkSum(t, p); st.Dropped.Undecided == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestKeepShutdownWithOpenTraces(t *testing.T) {
	handled(t)
	p, _ := keeping(t, keep.Policy{Errors: true})
	ctx, root := p.Tracer("t").Start(t.Context(), "root")
	_, child := p.Tracer("t").Start(ctx, "child")
	child.End()
	require.NoError(t, p.Shutdown(t.Context()))
	root.SetStatus(codes.Error, "too late to be sent")
	root.End()
	if st := p.KeepStats(); st.SpansDropped[keep.ShutDown] != 1 || st.OpenTraces != 0 || st.BufferedSpans != 0 {
		t.Errorf("%+v", st)
	}
	if st := checkSum(t, p); st.Ended != 2 || st.Dropped.Shutdown != 1 || st.Dropped.Undecided != 1 {
		t.Errorf("%+v", st)
	}
}

func TestKeepRejectsAnInvalidPolicy(t *testing.T) {
	errs := handled(t)
	p, _ := keeping(t, keep.Policy{MaxBytes: -1})
	if p.keeper != nil || len(errs()) != 1 {
		t.Errorf("%v", errs())
	}
}

func TestKeepConcurrently(t *testing.T) {
	handled(t)
	p, s := keeping(t, keep.Policy{Errors: true, MaxTraces: 50, MaxBytes: 20_000, MaxAge: 5 * time.Millisecond},
		WithBatch(Batch{MaxQueueSize: 100_000}))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				ctx, root := p.Tracer("t").Start(t.Context(), "root")
				var inner sync.WaitGroup
				for c := range 3 {
					inner.Go(func() {
						_, child := p.Tracer("t").Start(ctx, "child")
						if i%10 == 0 && c == 1 {
							child.SetStatus(codes.Error, "x")
						}
						child.End()
					})
				}
				if g%2 == 0 {
					inner.Wait()
				}
				root.End()
				inner.Wait()
			}
		})
	}
	wg.Wait()
	got := flushed(t, p, s)
	st, k := checkSum(t, p), p.KeepStats()
	// Where the root waits for its children, a failed trace is whole, unless a bound has struck it
	// before: then the two others may have ended by then.
	const failed = 4 * 300 / 10
	least := 4*failed - 2*int(k.TracesPartial)
	if st.Ended != 8*300*4 || uint64(len(got)) != st.Exported || len(got) < least || k.TracesKept[keep.Failed] < failed {
		t.Errorf("%d spans, at least %d are due, %+v, %+v", len(got), least, st, k)
	}
	if k.BufferedBytes != 0 || k.BufferedSpans != 0 || k.OpenTraces != 0 {
		t.Errorf("%+v", k)
	}
}

// Attributes that are read back for rules are those that were set.
func TestReadAttributes(t *testing.T) {
	p, _ := newProvider(t)
	_, s := p.Tracer("t").Start(t.Context(), "n")
	want := map[attribute.Key]attribute.Value{}
	for i, v := range []attribute.Value{
		{}, attribute.BoolValue(true), attribute.BoolValue(false),
		attribute.Int64Value(0), attribute.Int64Value(-1), attribute.Int64Value(128), attribute.Int64Value(math.MaxInt64), attribute.Int64Value(math.MinInt64),
		attribute.Float64Value(0), attribute.Float64Value(-0.5), attribute.Float64Value(math.Inf(1)), attribute.Float64Value(math.MaxFloat64),
		attribute.StringValue(""), attribute.StringValue("größe"), attribute.StringValue(strings.Repeat("日本語", 200)),
		attribute.BoolSliceValue(nil), attribute.BoolSliceValue([]bool{true, false}), attribute.Int64SliceValue([]int64{1, -1, math.MaxInt64}),
		attribute.Float64SliceValue([]float64{0, 1.5}), attribute.StringSliceValue([]string{"a", "", "\U0001F600"}), attribute.ByteSliceValue([]byte("bytes")),
		attribute.SliceValue(attribute.IntValue(1), attribute.Value{}),
		attribute.SliceValue(attribute.ByteSliceValue([]byte{1}), attribute.ByteSliceValue(nil)), attribute.MapValue(attribute.Int("x", 1), attribute.Map("m", attribute.Bool("deep", true))),
	} {
		key := attribute.Key(fmt.Sprint("key", i%20)) // some are set again, to a value of another length
		s.SetAttributes(attribute.KeyValue{Key: key, Value: v})
		want[key] = v
	}
	got := s.(*Span).rec.readAttributes()
	require.Equal(t, len(want), len(got), "attributes")
	for _, kv := range got {
		assert.Equal(t, want[kv.Key].String(), kv.Value.String(), kv.Key)
	}
	s.End()
}
