package agentreceiver

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/span"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source stands where agent.Run does, which needs root: it hands out batches
// when it is told to, as the agent's thread would.
type source struct {
	batches chan []*span.Span
	emitted chan struct{} // after each
	fail    error         // instead of getting ready
	last    []*span.Span  // when it is stopped

	mu   sync.Mutex
	lost map[string]uint64
}

func newSource() *source {
	return &source{batches: make(chan []*span.Span), emitted: make(chan struct{}), lost: map[string]uint64{}}
}

func (s *source) count(reason string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[reason] += n
}

func (s *source) losses() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lost)
}

func (s *source) run(ctx context.Context, o agent.Options) error {
	if s.fail != nil {
		return s.fail
	}
	o.Ready()
	for {
		select {
		case b := <-s.batches:
			o.Consume(b, s.count)
			for _, reused := range b {
				*reused = span.Span{Name: "reused"}
			}
			s.emitted <- struct{}{}
		case <-ctx.Done():
			if s.last != nil {
				o.Consume(s.last, s.count)
			}
			return nil
		}
	}
}

func (s *source) emit(b []*span.Span) {
	s.batches <- b
	<-s.emitted
}

var shop = &span.Resource{Service: "shop"}

func some(n int) []*span.Span {
	list := make([]*span.Span, n)
	for i := range list {
		list[i] = &span.Span{TraceID: span.TraceID{1}, ID: span.ID{byte(i + 1)}, Kind: span.Server, Name: "GET", Resource: shop}
	}
	return list
}

func started(t *testing.T, s *source, next consumer.Traces, queue int) *agentReceiver {
	t.Helper()
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	cfg.Agent.Queue = queue
	r, err := newReceiver(receivertest.NewNopSettings(Type), cfg, next, s.run)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEverythingArrives(t *testing.T) {
	s, sink := newSource(), new(consumertest.TracesSink)
	s.last = some(3)
	r := started(t, s, sink, 1000)
	for range 10 {
		s.emit(some(50))
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sink.SpanCount() != 503 || len(s.losses()) != 0 {
		t.Errorf("%d spans, lost %v", sink.SpanCount(), s.losses())
	}
	for _, td := range sink.AllTraces() {
		if name := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name(); name != "GET" {
			t.Errorf("span %q: the agent's were kept", name)
		}
	}
	if r.tracer.waiting.Load() != 0 {
		t.Errorf("%d spans wait", r.tracer.waiting.Load())
	}
}

// stuck is a pipeline that takes nothing until it is let go.
type stuck struct {
	consumertest.TracesSink
	entered, free chan struct{}
}

func (c *stuck) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	c.entered <- struct{}{}
	select {
	case <-c.free:
		return c.TracesSink.ConsumeTraces(ctx, td)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// If the pipeline is too slow, spans are lost and counted, and the agent does not wait.
func TestStuckPipeline(t *testing.T) {
	s, next := newSource(), &stuck{entered: make(chan struct{}, 100), free: make(chan struct{})}
	r := started(t, s, next, 100)
	for range 5 {
		s.emit(some(30)) // returns although nothing moves
	}
	<-next.entered
	if got := s.losses(); got[agent.LostQueueFull] != 60 {
		t.Errorf("lost %v, want the last two batches", got)
	}
	close(next.free)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next.SpanCount() != 90 || s.losses()[agent.LostRefused] != 0 {
		t.Errorf("%d spans arrived, lost %v", next.SpanCount(), s.losses())
	}
}

// Spans that still wait at the shutdown's deadline are dropped and counted.
func TestShutdownOutOfTime(t *testing.T) {
	s, next := newSource(), &stuck{entered: make(chan struct{}, 100), free: make(chan struct{})}
	r := started(t, s, next, 100)
	s.emit(some(30))
	s.emit(some(30))
	<-next.entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if got := s.losses(); got[agent.LostRefused] != 60 || r.tracer.late.Load() == 0 {
		t.Errorf("lost %v, %d late", got, r.tracer.late.Load())
	}
	if len(next.entered) > 0 {
		t.Error("what was given up was tried")
	}
}

// An agent that is kept goes on while no receiver takes its spans, and the next receiver has them.
func TestKept(t *testing.T) {
	s, first, second := newSource(), new(consumertest.TracesSink), new(consumertest.TracesSink)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kept := NewKept(ctx)
	receive := func(next consumer.Traces) *agentReceiver {
		cfg := NewFactory(Keep(kept)).CreateDefaultConfig().(*Config)
		r, err := newReceiver(receivertest.NewNopSettings(Type), cfg, next, s.run)
		require.NoError(t, err)
		require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
		return r
	}
	r := receive(first)
	s.emit(some(5))
	require.NoError(t, r.Shutdown(t.Context()))
	s.emit(some(7)) // blocks if the agent has ended
	r = receive(second)
	s.emit(some(9))
	s.last = some(3)
	cancel() // everything ends
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Equal(t, 5+7+9+3, first.SpanCount()+second.SpanCount())
	assert.GreaterOrEqual(t, second.SpanCount(), 7+9+3)
	assert.Empty(t, s.losses())
	kept.Stop()
}

// A configuration that only a start takes over ends the agent, whose spans arrive, and starts another.
func TestKeptWithOtherConfiguration(t *testing.T) {
	s, sink := newSource(), new(consumertest.TracesSink)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kept := NewKept(ctx)
	for _, payload := range []bool{true, false} {
		cfg := NewFactory(Keep(kept)).CreateDefaultConfig().(*Config)
		cfg.Agent.Payload = payload
		r, err := newReceiver(receivertest.NewNopSettings(Type), cfg, sink, s.run)
		require.NoError(t, err)
		require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
		s.last = some(3)
		if !payload {
			assert.Equal(t, 3, sink.SpanCount(), "the spans with which the first one ended")
			cancel()
		}
		require.NoError(t, r.Shutdown(t.Context()))
	}
	assert.Equal(t, 6, sink.SpanCount())
}

// An agent that no receiver takes any more is stopped.
func TestKeptIsStopped(t *testing.T) {
	s := newSource()
	kept := NewKept(t.Context())
	cfg := NewFactory(Keep(kept)).CreateDefaultConfig().(*Config)
	r, err := newReceiver(receivertest.NewNopSettings(Type), cfg, consumertest.NewNop(), s.run)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, r.Shutdown(t.Context()))
	kept.Stop() // goleak looks whether it has ended
}

// A pipeline that takes nothing does not hold up what follows a receiver whose agent is kept.
func TestKeptWithStuckPipeline(t *testing.T) {
	s, next := newSource(), &stuck{entered: make(chan struct{}, 100), free: make(chan struct{})}
	kept := NewKept(t.Context())
	cfg := NewFactory(Keep(kept)).CreateDefaultConfig().(*Config)
	r, err := newReceiver(receivertest.NewNopSettings(Type), cfg, next, s.run)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	s.emit(some(30))
	<-next.entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
	assert.EqualValues(t, 30, s.losses()[agent.LostRefused])
	kept.Stop()
}

func TestRefusals(t *testing.T) {
	s := newSource()
	r := started(t, s, consumertest.NewErr(errors.New("memory limit")), 100)
	s.emit(some(7))
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.losses(); got[agent.LostRefused] != 7 {
		t.Errorf("lost %v", got)
	}
}

func TestAgentThatDoesNotStart(t *testing.T) {
	s := newSource()
	s.fail = errors.New("not allowed to load kernel programs")
	r, err := newReceiver(receivertest.NewNopSettings(Type), NewFactory().CreateDefaultConfig().(*Config), consumertest.NewNop(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); !errors.Is(err, s.fail) {
		t.Errorf("%v", err)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown after that: %v", err)
	}
}

func TestShutdownWithoutStart(t *testing.T) {
	r, err := NewFactory(Configured(config.Default(), nil)).CreateTraces(t.Context(), receivertest.NewNopSettings(Type),
		NewFactory().CreateDefaultConfig(), consumertest.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
