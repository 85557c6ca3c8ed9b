package lean

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// handled collects what otel.Handle gets until the test ends.
func handled(t *testing.T) func() []error {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}))
	t.Cleanup(func() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) })
	return func() []error {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(errs)
	}
}

// checkSum checks that every ended span is somewhere.
func checkSum(t *testing.T, p *TracerProvider) Stats {
	t.Helper()
	s := p.Stats()
	if s.Ended != s.Exported+s.Rejected+s.Failed+s.Unsampled+s.Dropped.Total()+uint64(s.QueuedSpans) || s.QueuedSpans < 0 || s.QueuedBytes < 0 {
		t.Errorf("the numbers do not add up: %+v", s)
	}
	return s
}

func startEnd(p *TracerProvider, n int) {
	tracer := p.Tracer("t")
	for range n {
		_, s := tracer.Start(context.Background(), "n")
		s.End()
	}
}

func TestManyGoroutinesLoseNothing(t *testing.T) {
	p, s := newProvider(t, WithBatch(Batch{MaxQueueSize: 100_000, MaxExportBatchSize: 100}))
	const goroutines, each = 8, 500
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			tracer := p.Tracer(fmt.Sprint("scope", g%3))
			for i := range each {
				ctx, parent := tracer.Start(t.Context(), fmt.Sprint(g))
				_, child := tracer.Start(ctx, fmt.Sprint(g), trace.WithAttributes(attribute.Int("i", i)))
				child.End()
				parent.End()
				if i%100 == 0 {
					_ = p.ForceFlush(t.Context())
					checkNothingNegative(t, p)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Shutdown(context.Background()))
	perScope := map[string]int{}
	for _, r := range s.resourceSpans(t) {
		seen := map[string]bool{}
		for _, scope := range r.ScopeSpans {
			if seen[scope.Scope.Name] {
				t.Errorf("scope %s twice in one request", scope.Scope.Name)
			}
			seen[scope.Scope.Name] = true
			perScope[scope.Scope.Name] += len(scope.Spans)
		}
		assert.LessOrEqual(t, countSpans(s.requests[0].ResourceSpans), 100, "spans in a request")
	}
	if perScope["scope0"] != 3*2*each || perScope["scope1"] != 3*2*each || perScope["scope2"] != 2*2*each {
		t.Errorf("%v", perScope)
	}
	if st := checkSum(t, p); st.Exported != goroutines*each*2 || st.QueuedSpans != 0 || st.QueuedBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func checkNothingNegative(t *testing.T, p *TracerProvider) {
	t.Helper()
	if s := p.Stats(); s.QueuedBytes < 0 || s.QueuedSpans < 0 {
		t.Errorf("%+v", s)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	p, s := newProvider(t, WithBatch(Batch{MaxQueueSize: 1000, MaxExportBatchSize: 7, MaxExportBatchBytes: 1000}))
	for i := range 50 {
		_, span := p.Tracer(fmt.Sprint("s", i%3)).Start(t.Context(), "n")
		span.SetAttributes(attribute.String("a", strings.Repeat("x", []int{10, 300, 2000}[i%3])))
		span.End()
	}
	assert.Equal(t, 50, len(flushed(t, p, s)), "spans")
	for _, r := range s.requests {
		n, bytes := 0, 0
		for _, rs := range r.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					n++
					bytes += len(span.Attributes[0].Value.GetStringValue())
				}
			}
		}
		if n > 7 || n > 1 && bytes > 1000 || n == 0 {
			t.Errorf("a request with %d spans, %d bytes of attributes", n, bytes)
		}
	}
}

// blocked is an exporter that waits until it is released.
func blocked() (*sink, func()) {
	release := make(chan struct{})
	s := &sink{before: func(ctx context.Context, _ int) (int, error) {
		select {
		case <-release:
			return 0, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}}
	return s, sync.OnceFunc(func() { close(release) })
}

func TestFullQueueDropsAndCounts(t *testing.T) {
	errs := handled(t)
	s, release := blocked()
	defer release()
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{MaxQueueSize: 10, MaxExportBatchSize: 5}))
	startEnd(p, 100)
	st := checkSum(t, p)
	if st.Dropped.QueueFull != 90 || st.QueuedSpans != 10 {
		t.Errorf("%+v", st)
	}
	release()
	require.NoError(t, p.Shutdown(context.Background()))
	if st := checkSum(t, p); st.Exported != 10 || st.QueuedBytes != 0 || len(s.spans(t)) != 10 {
		t.Errorf("%+v", st)
	}
	told := errs()
	if len(told) == 0 || len(told) > 3 || !strings.Contains(fmt.Sprint(told), "queue full 90") {
		t.Errorf("reported: %v", told)
	}
}

func TestFullBytesDropAndCount(t *testing.T) {
	handled(t)
	s, release := blocked()
	defer release()
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{MaxQueueBytes: 10_000}))
	for range 20 {
		_, span := p.Tracer("t").Start(t.Context(), "n")
		span.SetAttributes(attribute.String("a", strings.Repeat("x", 2000)))
		span.End()
	}
	_, span := p.Tracer("t").Start(t.Context(), "n")
	span.SetAttributes(attribute.String("a", strings.Repeat("x", 20_000))) // larger than the queue
	span.End()
	st := checkSum(t, p)
	if st.QueuedBytes > 10_000 || st.QueuedSpans != 4 || st.Dropped.QueueBytes != 17 {
		t.Errorf("%+v", st)
	}
	release()
	require.NoError(t, p.Shutdown(context.Background()))
	if got := checkSum(t, p); got.Exported != 4 {
		t.Errorf("%+v", got)
	}
}

// Spans go out as soon as a batch is full, not at the end of a long delay.
func TestFullBatchIsExportedAtOnce(t *testing.T) {
	for _, batch := range []int{1, 5, 64, 512} {
		arrived := make(chan int, 10_000)
		s := &sink{before: func(_ context.Context, n int) (int, error) {
			arrived <- n
			return 0, nil
		}}
		p := NewTracerProvider(WithExporter(s), WithBatch(Batch{MaxExportBatchSize: batch, ScheduleDelay: time.Hour}))
		startEnd(p, 3*batch+64) // a processor may change meanwhile, and with it the shard
		if n := <-arrived; n != batch {
			t.Errorf("%d spans of %d", n, batch)
		}
		require.NoError(t, p.Shutdown(context.Background()))
	}
}

func TestScheduleDelay(t *testing.T) {
	arrived := make(chan int, 10)
	s := &sink{before: func(_ context.Context, n int) (int, error) {
		arrived <- n
		return 0, nil
	}}
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{ScheduleDelay: time.Millisecond}))
	defer func() { _ = p.Shutdown(context.Background()) }()
	startEnd(p, 1)
	<-arrived
	startEnd(p, 1)
	<-arrived
}

func TestFailingExporter(t *testing.T) {
	errs := handled(t)
	broken := errors.New("connection refused")
	s := &sink{before: func(context.Context, int) (int, error) { return 0, broken }}
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{ScheduleDelay: time.Hour}))
	startEnd(p, 3)
	if err := p.ForceFlush(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "3 spans") {
		t.Errorf("ForceFlush says %v", err)
	}
	startEnd(p, 2)
	assert.ErrorIs(t, p.Shutdown(context.Background()), broken, "Shutdown")
	if st := checkSum(t, p); st.Failed != 5 || st.Requests != 2 || s.shutdown != 1 {
		t.Errorf("%+v", st)
	}
	assert.Equal(t, 0, len(errs()), "told twice: %v", errs())
}

func TestErrorsOfUnattendedExportsAreHandled(t *testing.T) {
	errs := handled(t)
	called := make(chan struct{}, 100)
	s := &sink{before: func(context.Context, int) (int, error) {
		called <- struct{}{}
		return 0, errors.New("connection refused")
	}}
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{ScheduleDelay: time.Millisecond}))
	startEnd(p, 1)
	<-called
	require.NoError(t, p.Shutdown(context.Background()))
	if got := errs(); len(got) != 1 || !strings.Contains(got[0].Error(), "connection refused") {
		t.Errorf("%v", got)
	}
}

func TestPartialSuccess(t *testing.T) {
	s := &sink{before: func(_ context.Context, n int) (int, error) { return 3, nil }}
	p := NewTracerProvider(WithExporter(s))
	startEnd(p, 10)
	require.NoError(t, p.Shutdown(context.Background()))
	if st := checkSum(t, p); st.Rejected != 3 || st.Exported != 7 {
		t.Errorf("%+v", st)
	}
}

func TestExportTimeout(t *testing.T) {
	s, release := blocked()
	defer release()
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{ExportTimeout: time.Millisecond}))
	startEnd(p, 1)
	assert.ErrorContains(t, p.ForceFlush(t.Context()), "ExportTimeout")
	assert.NoError(t, p.Shutdown(context.Background()))
}

func TestForceFlushHonoursItsContext(t *testing.T) {
	s, release := blocked()
	p := NewTracerProvider(WithExporter(s))
	startEnd(p, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, p.ForceFlush(ctx), context.DeadlineExceeded)
	assert.ErrorIs(t, p.ForceFlush(ctx), context.DeadlineExceeded)
	release()
	assert.NoError(t, p.Shutdown(context.Background()))
	assert.NoError(t, p.ForceFlush(t.Context()))
	if st := checkSum(t, p); st.Exported != 1 {
		t.Errorf("%+v", st)
	}
}

// A shutdown that may not wait: the running export is cancelled, the rest dropped and counted.
func TestShutdownHonoursItsContext(t *testing.T) {
	handled(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := &sink{before: func(export context.Context, _ int) (int, error) {
		cancel() // now Shutdown may not wait any longer
		<-export.Done()
		return 0, context.Cause(export)
	}}
	p := NewTracerProvider(WithExporter(s), WithBatch(Batch{MaxExportBatchSize: 5, ScheduleDelay: time.Hour}))
	startEnd(p, 20)
	assert.Error(t, p.Shutdown(ctx))
	<-p.worker.done
	st := checkSum(t, p)
	if st.Exported != 0 || st.Failed+st.Dropped.Shutdown != 20 || st.Failed == 0 || st.Dropped.Shutdown == 0 || s.shutdown != 1 {
		t.Errorf("%+v, %d shutdowns", st, s.shutdown)
	}
	assert.NoError(t, p.Shutdown(context.Background()))
}

func TestSpansThatEndAfterShutdown(t *testing.T) {
	p, s := newProvider(t)
	_, span := p.Tracer("t").Start(t.Context(), "n")
	for range 3 {
		assert.NoError(t, p.Shutdown(t.Context()))
	}
	span.End()
	if st := checkSum(t, p); st.Dropped.Shutdown != 1 || s.shutdown != 1 {
		t.Errorf("%+v, %d shutdowns", st, s.shutdown)
	}
}

func TestShutdownWhileSpansEnd(t *testing.T) {
	handled(t)
	for range 20 {
		p, _ := newProvider(t, WithBatch(Batch{MaxExportBatchSize: 10}))
		var wg sync.WaitGroup
		var done atomic.Bool
		for range 4 {
			wg.Go(func() {
				for !done.Load() {
					startEnd(p, 10)
				}
			})
		}
		assert.NoError(t, p.Shutdown(t.Context()))
		done.Store(true)
		wg.Wait()
		if st := checkSum(t, p); st.QueuedSpans != 0 {
			t.Errorf("%+v", st)
		}
	}
}

func TestRecordOnlyAndNoExporter(t *testing.T) {
	p, s := newProvider(t, WithSampler(sdktrace.AlwaysRecord(sdktrace.NeverSample())))
	_, span := p.Tracer("t").Start(t.Context(), "n")
	if !span.IsRecording() || span.SpanContext().IsSampled() {
		t.Error("not recording, or sampled")
	}
	span.End()
	if got := flushed(t, p, s); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if st := checkSum(t, p); st.Unsampled != 1 || st.Recorded != 1 {
		t.Errorf("%+v", st)
	}
	none := NewTracerProvider()
	startEnd(none, 2)
	assert.NoError(t, errors.Join(none.ForceFlush(t.Context()), none.Shutdown(t.Context())))
	if st := checkSum(t, none); st.Dropped.NoExporter != 2 {
		t.Errorf("%+v", st)
	}
}

func TestBatchFromEnvironment(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "500")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "7")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "nonsense")
	errs := handled(t)
	b := Batch{}.withDefaults()
	if b.MaxQueueSize != 100 || b.MaxExportBatchSize != 100 || b.ScheduleDelay != 7*time.Millisecond || b.ExportTimeout != 30*time.Second {
		t.Errorf("%+v", b)
	}
	assert.Len(t, errs(), 1)
	b = Batch{MaxQueueSize: 9, MaxExportBatchSize: 3, ScheduleDelay: time.Second, ExportTimeout: -1}.withDefaults()
	if b.MaxQueueSize != 9 || b.MaxExportBatchSize != 3 || b.ScheduleDelay != time.Second || b.ExportTimeout != -1 {
		t.Errorf("%+v", b)
	}
}

// The share of the queue that is in use is the pressure, by spans and by bytes; it falls when they are exported.
func TestPressureOfTheQueue(t *testing.T) {
	for name, b := range map[string]Batch{
		"spans": {MaxQueueSize: 64, MaxExportBatchSize: 64, ScheduleDelay: time.Hour},
		"bytes": {MaxQueueSize: 1 << 20, MaxQueueBytes: 6400, MaxExportBatchSize: 1 << 20, ScheduleDelay: time.Hour},
	} {
		p, _ := newProvider(t, WithBatch(b))
		assert.EqualValues(t, 0, p.Pressure(), "%s: of an empty queue", name)
		last := 0.0
		for p.Pressure() < 0.3 { // at half of the bytes, spans are exported before their time
			startEnd(p, 1)
			if v := p.Pressure(); v < last {
				t.Fatalf("%s: fell from %v to %v", name, last, v)
			} else if last = v; p.Stats().Dropped.Total() > 0 {
				t.Fatalf("%s: spans are dropped at a pressure of %v", name, v)
			}
		}
		require.NoError(t, p.ForceFlush(t.Context()))
		assert.EqualValues(t, 0, p.Pressure(), "%s: after all was exported", name)
	}
}
