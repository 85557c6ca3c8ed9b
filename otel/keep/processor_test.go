package keep_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

func TestFailedTraceIsExportedWhole(t *testing.T) {
	p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{Errors: true})
	ctx, root := p.tracer.Start(context.Background(), "root")
	_, first := p.tracer.Start(ctx, "first")
	first.End()
	require.Equal(t, "", p.names(), "came out of an undecided trace")
	_, failing := p.tracer.Start(ctx, "failing")
	_, late := p.tracer.Start(ctx, "late")
	fail(failing)
	failing.End()
	root.End()
	late.End()
	_, after := p.tracer.Start(ctx, "after")
	after.End()
	if got, want := p.names(), "first failing root late after"; got != want {
		t.Errorf("exported %q, want %q", got, want)
	}
	for _, s := range p.recorder.Ended() {
		if s.Name() != "root" && !s.Parent().IsSampled() {
			t.Errorf("%s: the local parent is exported, too, but not marked as sampled", s.Name())
		}
	}
	if s := p.processor.Stats(); s.TracesKept[keep.Failed] != 1 || s.TracesPartial != 0 || s.OpenTraces != 0 || s.RememberedTraces != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLateSpanOfDroppedTrace(t *testing.T) {
	p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{Errors: true})
	ctx, root := p.tracer.Start(context.Background(), "root")
	_, late := p.tracer.Start(ctx, "late")
	root.End()
	fail(late)
	late.End()
	assert.Equal(t, "", p.names())
	if s := p.processor.Stats(); s.SpansDropped[keep.Late] != 1 || s.SpansDropped[keep.Unwanted] != 1 || s.TracesDropped[keep.Unwanted] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReasons(t *testing.T) {
	p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{
		Errors: true, ServerErrors: true, SlowerThan: time.Second,
		Rules: []*rule.Rule{rule.MustCompile(rule.Spec{Attributes: map[string]string{"user.tier": "gold"}})},
	})
	start := time.Now()
	server := trace.WithSpanKind(trace.SpanKindServer)
	for _, c := range []struct {
		name    string
		options []trace.SpanStartOption
		after   time.Duration
	}{
		{"usual", nil, time.Second},
		{"slow", nil, time.Second + 1},
		{"500", []trace.SpanStartOption{server, trace.WithAttributes(attribute.Int("http.response.status_code", 500))}, 0},
		{"old500", []trace.SpanStartOption{server, trace.WithAttributes(attribute.Int("http.status_code", 503))}, 0},
		{"404", []trace.SpanStartOption{server, trace.WithAttributes(attribute.Int("http.response.status_code", 404))}, 0},
		{"text", []trace.SpanStartOption{server, trace.WithAttributes(attribute.String("http.response.status_code", "500"))}, 0},
		{"gold", []trace.SpanStartOption{trace.WithAttributes(attribute.String("user.tier", "gold"))}, 0},
	} {
		_, s := p.tracer.Start(context.Background(), c.name, append(c.options, trace.WithTimestamp(start))...)
		s.End(trace.WithTimestamp(start.Add(c.after)))
	}
	if got, want := p.names(), "slow 500 old500 gold"; got != want {
		t.Errorf("exported %q, want %q", got, want)
	}
	if s := p.processor.Stats(); s.TracesKept[keep.Failed] != 2 || s.TracesKept[keep.Slow] != 1 || s.TracesKept[keep.Matched] != 1 {
		t.Errorf("%+v", s)
	}
}

// A sampled root whose head dropped a child: what is below the child is a local
// trace of its own, as nothing else waits.
func TestUnsampledPartOfSampledTrace(t *testing.T) {
	for _, exact := range []bool{false, true} {
		p := newPipeline(t, rootsOnly{}, keep.Policy{Errors: true, ExactCounts: exact})
		for _, failing := range []bool{false, true} {
			ctx, root := p.tracer.Start(context.Background(), fmt.Sprintf("root(%t)", failing))
			ctx, part := p.tracer.Start(ctx, fmt.Sprintf("part(%t)", failing))
			_, leaf := p.tracer.Start(ctx, fmt.Sprintf("leaf(%t)", failing))
			leaf.End()
			if failing {
				fail(part)
			}
			part.End()
			root.End()
		}
		if got, want := p.names(), "root(false) leaf(true) part(true) root(true)"; got != want {
			t.Errorf("exact %t: exported %q, want %q", exact, got, want)
		}
	}
}

type rootsOnly struct{}

func (rootsOnly) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if !trace.SpanContextFromContext(p.ParentContext).IsValid() {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{}
}
func (rootsOnly) Description() string { return "rootsOnly" }

// The goroutine that looks for old traces does so without traffic.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{Errors: true, MaxAge: 80 * time.Second})
		time.Sleep(3 * time.Second)
		ctx, root := p.tracer.Start(context.Background(), "root")
		_, child := p.tracer.Start(ctx, "child")
		child.End()
		time.Sleep(80 * time.Second)
		if s := p.processor.Stats(); s.OpenTraces != 1 || s.BufferedSpans != 1 {
			t.Fatalf("before MaxAge: %+v", s)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := p.processor.Stats(); s.OpenTraces != 0 || s.BufferedSpans != 0 || s.BufferedBytes != 0 ||
			s.TracesDropped[keep.TooOld] != 1 || s.SpansDropped[keep.TooOld] != 1 {
			t.Fatalf("9/8 of MaxAge later: %+v", s)
		}
		fail(root)
		root.End()
		if s := p.processor.Stats(); p.names() != "root" || s.TracesPartial != 1 || s.RememberedTraces != 1 {
			t.Errorf("the failed root of a trace that was too old: exported %q, %+v", p.names(), s)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if s := p.processor.Stats(); s.RememberedTraces != 0 {
			t.Errorf("the kept trace is remembered for more than 9/8 of MaxAge: %+v", s)
		}
	})
}

func TestMaxSpansPerTrace(t *testing.T) {
	p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{Errors: true, MaxSpansPerTrace: 2})
	ctx, root := p.tracer.Start(context.Background(), "root")
	for _, name := range []string{"a", "b", "c", "failing", "e"} {
		_, s := p.tracer.Start(ctx, name)
		if name == "failing" {
			fail(s)
		}
		s.End()
	}
	root.End()
	if got, want := p.names(), "a b failing e root"; got != want {
		t.Errorf("exported %q, want %q", got, want)
	}
	if s := p.processor.Stats(); s.SpansDropped[keep.TooManySpans] != 1 || s.TracesPartial != 1 {
		t.Errorf("%+v", s)
	}
}

func TestSpanLargerThanAllMemory(t *testing.T) {
	p := newPipeline(t, sdktrace.NeverSample(), keep.Policy{Errors: true, MaxBytes: 2000})
	ctx, root := p.tracer.Start(context.Background(), "root")
	for _, size := range []int{10, 5000} {
		_, s := p.tracer.Start(ctx, fmt.Sprint(size), trace.WithAttributes(attribute.String("k", string(make([]byte, size)))))
		s.End()
	}
	fail(root)
	root.End()
	if got, want := p.names(), "10 root"; got != want {
		t.Errorf("exported %q, want %q", got, want)
	}
	if s := p.processor.Stats(); s.SpansDropped[keep.TooManyBytes] != 1 || s.TracesPartial != 1 {
		t.Errorf("%+v", s)
	}
}

// watch is a span processor that notices what must not happen.
type watch struct {
	*tracetest.SpanRecorder
	shut, afterShutdown atomic.Bool
	flushes             atomic.Int32
	onEnd               func()
}

func (w *watch) OnEnd(s sdktrace.ReadOnlySpan) {
	if w.shut.Load() {
		w.afterShutdown.Store(true)
	}
	if w.onEnd != nil {
		w.onEnd()
	}
	w.SpanRecorder.OnEnd(s)
}

func (w *watch) Shutdown(context.Context) error {
	w.shut.Store(true)
	return errBoom
}

func (w *watch) ForceFlush(context.Context) error {
	w.flushes.Add(1)
	return errBoom
}

func newWatched(t *testing.T, inner sdktrace.Sampler, policy keep.Policy) (*watch, *keep.Processor, trace.Tracer) {
	t.Helper()
	w := &watch{SpanRecorder: tracetest.NewSpanRecorder()}
	processor, err := keep.NewProcessor(w, policy)
	require.NoError(t, err)
	t.Cleanup(func() { processor.Shutdown(context.Background()) }) //nolint:errcheck // the error is the watch's own
	return w, processor, sdktrace.NewTracerProvider(
		sdktrace.WithSampler(keep.Sampler(inner)), sdktrace.WithSpanProcessor(processor)).Tracer("test")
}

func TestShutdown(t *testing.T) {
	for _, exact := range []bool{false, true} {
		w, processor, tracer := newWatched(t, sdktrace.ParentBased(sdktrace.NeverSample()), keep.Policy{Errors: true, ExactCounts: exact})
		open := func(parent context.Context, name string, failing bool) trace.Span {
			ctx, root := tracer.Start(parent, name)
			_, child := tracer.Start(ctx, name+".child")
			if failing {
				fail(child)
			}
			child.End()
			return root
		}
		head := open(remoteParent(1, true, ""), "head", false)
		undecided := open(context.Background(), "undecided", false)
		failed := open(context.Background(), "failed", true)
		if err := processor.ForceFlush(context.Background()); err != errBoom || w.flushes.Load() != 1 {
			t.Errorf("ForceFlush is not the next processor's: %v", err)
		}
		if s := processor.Stats(); s.BufferedSpans == 0 {
			t.Error("ForceFlush took undecided spans")
		}
		for range 2 {
			if err := processor.Shutdown(context.Background()); err == nil || err.Error() != errBoom.Error() {
				t.Errorf("Shutdown: %v, want the next processor's error", err)
			}
		}
		for _, s := range []trace.Span{head, undecided, failed} {
			fail(s)
			s.End()
		}
		_, s := tracer.Start(context.Background(), "afterwards")
		s.End()
		var names []string
		for _, s := range w.Ended() {
			names = append(names, s.Name())
		}
		want := "[head.child failed.child]"
		if exact { // the head's span had to wait
			want = "[failed.child head.child]"
		}
		if got := fmt.Sprint(names); got != want || w.afterShutdown.Load() {
			t.Errorf("exported %s, want %s; after the shutdown: %t", got, want, w.afterShutdown.Load())
		}
		if s := processor.Stats(); s.OpenTraces != 0 || s.BufferedSpans != 0 || s.BufferedBytes != 0 || s.RememberedTraces != 0 ||
			s.TracesDropped[keep.ShutDown] != 1 || s.SpansDropped[keep.ShutDown] != 5 {
			t.Errorf("%+v", s)
		}
	}
}

// Shutdown waits for a next processor that is busy, but not beyond its context.
func TestShutdownHonoursContext(t *testing.T) {
	w, processor, tracer := newWatched(t, sdktrace.AlwaysSample(), keep.Policy{})
	busy, release := make(chan struct{}), make(chan struct{})
	w.onEnd = func() { close(busy); <-release }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, s := tracer.Start(context.Background(), "s")
		s.End()
	}()
	<-busy
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() { result <- processor.Shutdown(ctx) }()
	select {
	case err := <-result:
		t.Fatalf("Shutdown did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	assert.False(t, w.shut.Load(), "the next processor was shut down while it was busy")
	cancel()
	if err := <-result; err == nil {
		t.Error("Shutdown hides that the next processor was busy")
	}
	close(release)
	<-ended
}

// Many goroutines, spans of one trace in several of them, shut down in the
// midst: nothing reaches the next processor after its shutdown, every span is
// accounted for, and every failed trace that ended before is whole.
func TestConcurrentUse(t *testing.T) {
	for _, exact := range []bool{false, true} {
		w, processor, tracer := newWatched(t, sdktrace.TraceIDRatioBased(0.2), keep.Policy{
			Errors: true, ExactCounts: exact, MaxAge: 10 * time.Minute,
			Learn: keep.Learn{Quantile: 0.9999},
		})
		const goroutines, traces, children = 8, 400, 5
		var wg, halfway sync.WaitGroup
		var wanted sync.Map // trace id → all its spans have to come out
		var before atomic.Bool
		before.Store(true)
		var ended atomic.Int64
		halfway.Add(goroutines)
		for range goroutines {
			wg.Go(func() {
				for i := range traces {
					if i == traces/2 {
						halfway.Done()
					}
					ctx, root := tracer.Start(context.Background(), "root")
					var parts sync.WaitGroup
					for j := range children {
						parts.Go(func() {
							_, s := tracer.Start(ctx, "child")
							if i%10 == 0 && j == 2 {
								fail(s)
							}
							s.End()
						})
					}
					parts.Wait()
					recording := root.IsRecording()
					root.End()
					if recording && before.Load() {
						wanted.Store(root.SpanContext().TraceID(), i%10 == 0 || root.SpanContext().IsSampled())
					}
					ended.Add(1 + children)
				}
			})
		}
		halfway.Wait()
		processor.Stats()
		before.Store(false)
		processor.Shutdown(context.Background()) //nolint:errcheck // the error is the watch's own
		wg.Wait()
		assert.False(t, w.afterShutdown.Load(), "a span reached the next processor after its shutdown")
		got, seen := map[trace.TraceID]int{}, map[trace.SpanID]bool{}
		for _, s := range w.Ended() {
			if seen[s.SpanContext().SpanID()] {
				t.Fatal("a span came out twice")
			}
			seen[s.SpanContext().SpanID()] = true
			got[s.SpanContext().TraceID()]++
		}
		n := 0
		wanted.Range(func(id, want any) bool {
			n++
			if spans := got[id.(trace.TraceID)]; want == true && spans != 1+children || want == false && spans != 0 {
				t.Errorf("trace %v: %d spans, wanted %v", id, spans, want)
			}
			return !t.Failed()
		})
		assert.GreaterOrEqual(t, n, goroutines*traces/4)
		s := processor.Stats()
		total := s.SpansPassed + s.SpansKept
		for _, n := range s.SpansDropped {
			total += n
		}
		if total != uint64(ended.Load()) || s.OpenTraces != 0 || s.BufferedSpans != 0 {
			t.Errorf("%d of %d spans are accounted for: %+v", total, ended.Load(), s)
		}
	}
}

// Ten bounds' worth of traces that never end: the heap stays what the bounds
// say, which shows that the estimate of bytes is one.
func TestUnfinishedTracesAreBounded(t *testing.T) {
	policy := keep.Policy{Errors: true, MaxTraces: 4096, MaxBytes: 8 << 20}
	processor, err := keep.NewProcessor(discard{}, policy)
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(sdktrace.NeverSample())), sdktrace.WithSpanProcessor(processor))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // nothing to shut down behind it
	tracer := provider.Tracer("test")
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for i := range 10 * policy.MaxTraces {
		ctx, _ := tracer.Start(context.Background(), "root")
		for j := range 1 + i%3 {
			_, s := tracer.Start(ctx, "child", trace.WithAttributes(attribute.Int("j", j), attribute.String("k", string(make([]byte, 1000)))))
			s.AddEvent("event", trace.WithAttributes(attribute.String("k", string(make([]byte, 300)))))
			s.End()
		}
		if s := processor.Stats(); s.OpenTraces > policy.MaxTraces || s.BufferedBytes > policy.MaxBytes {
			t.Fatalf("a bound is exceeded: %+v", s)
		}
	}
	grown := heap() - before
	s := processor.Stats()
	assert.GreaterOrEqual(t, s.BufferedBytes, policy.MaxBytes*9/10, "the bound is hardly used: %+v", s)
	// Maps, lists and empty buffers are beside the bytes of spans.
	if most := policy.MaxBytes*5/4 + policy.MaxTraces*512; grown > most {
		t.Errorf("the heap has grown by %d bytes for an estimated %d; want at most %d", grown, s.BufferedBytes, most)
	}
	if dropped := s.TracesDropped[keep.TooManyOpen] + s.TracesDropped[keep.TooManyBytes]; int(dropped) != 10*policy.MaxTraces-s.OpenTraces {
		t.Errorf("%d traces were dropped, %d are open, %d were started", dropped, s.OpenTraces, 10*policy.MaxTraces)
	}
}

// discard is a span processor that does nothing.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }
