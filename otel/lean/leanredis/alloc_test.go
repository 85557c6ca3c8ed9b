package leanredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/internal/race"
	"github.com/tare-trace/tare/otel/lean"
	"github.com/tare-trace/tare/otel/lean/leanredis"
)

// discard is an exporter of both kinds.
type discard struct{}

func (discard) Export(context.Context, []byte, int) (int, error) { return 0, nil }
func (discard) Shutdown(context.Context) error                   { return nil }

type discardSpans struct{}

func (discardSpans) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discardSpans) Shutdown(context.Context) error                             { return nil }

func newLean(tb testing.TB, s sdktrace.Sampler) trace.TracerProvider {
	tp := lean.NewTracerProvider(lean.WithExporter(discard{}), lean.WithSampler(s))
	tb.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp
}

func newSDK(tb testing.TB, s sdktrace.Sampler) trace.TracerProvider {
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discardSpans{}), sdktrace.WithSampler(s))
	tb.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp
}

// answered is a hook that answers commands itself: what is left is the cost of
// the hook before it, and of go-redis making the command.
type answered struct{}

func (answered) DialHook(next redis.DialHook) redis.DialHook { return next }
func (answered) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return nil }
}
func (answered) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}

func newClient(tb testing.TB, addr string, instrument func(*redis.Client) error) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	tb.Cleanup(func() { _ = rdb.Close() })
	if instrument != nil {
		require.NoError(tb, instrument(rdb))
	}
	return rdb
}

func withLean(tp trace.TracerProvider, opts ...leanredis.Option) func(*redis.Client) error {
	return func(rdb *redis.Client) error {
		return leanredis.Instrument(rdb, append(opts, leanredis.WithTracerProvider(tp))...)
	}
}

func withOfficial(tp trace.TracerProvider, opts ...redisotel.TracingOption) func(*redis.Client) error {
	return func(rdb *redis.Client) error {
		return redisotel.InstrumentTracing(rdb, append(opts, redisotel.WithTracerProvider(tp))...)
	}
}

func withParent(flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags}))
}

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	tp := newLean(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	for _, c := range []struct {
		name string
		ctx  context.Context
		opts []leanredis.Option
		want float64
	}{
		{"unsampled parent", withParent(0), nil, 0},
		{"no parent, unsampled", context.Background(), nil, 1},
		{"sampled", withParent(1), nil, 1},
		{"sampled, no caller", withParent(1), []leanredis.Option{leanredis.WithCallerEnabled(false)}, 1},
	} {
		rdb := newClient(t, "127.0.0.1:1", withLean(tp, c.opts...))
		rdb.AddHook(answered{})
		cmd := redis.NewStatusCmd(c.ctx, "set", "key", "value", "ex", 60)
		got := testing.AllocsPerRun(1000, func() {
			if err := rdb.Process(c.ctx, cmd); err != nil {
				t.Fatal(err)
			}
		})
		assert.Equal(t, c.want, got, "%s: allocations", c.name)
	}
}
