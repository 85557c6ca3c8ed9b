package leanredis_test

import (
	"testing"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/lean/leanredis"
)

// variants are the instrumentations to compare.
func variants(b *testing.B) map[string]func(*redis.Client) error {
	sampler := sdktrace.ParentBased(sdktrace.NeverSample())
	return map[string]func(*redis.Client) error{
		"none":               nil,
		"official":           withOfficial(newSDK(b, sampler)),
		"official-no-caller": withOfficial(newSDK(b, sampler), redisotel.WithCallerEnabled(false)),
		"lean":               withLean(newLean(b, sampler)),
		"lean-no-caller":     withLean(newLean(b, sampler), leanredis.WithCallerEnabled(false)),
	}
}

// BenchmarkCommand is a command without a server: the hook's own cost.
func BenchmarkCommand(b *testing.B) {
	for _, parent := range []string{"unsampled", "sampled"} {
		for name, instrument := range variants(b) {
			b.Run(parent+"/"+name, func(b *testing.B) {
				ctx := withParent(0)
				if parent == "sampled" {
					ctx = withParent(1)
				}
				rdb := newClient(b, "127.0.0.1:1", instrument)
				rdb.AddHook(answered{})
				cmd := redis.NewStatusCmd(ctx, "set", "key", "value", "ex", 60)
				b.ReportAllocs()
				for b.Loop() {
					if err := rdb.Process(ctx, cmd); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkServer is INCR on a redis-server on the loopback.
func BenchmarkServer(b *testing.B) {
	addr := redisServer(b)
	for _, parent := range []string{"unsampled", "sampled"} {
		for name, instrument := range variants(b) {
			b.Run(parent+"/"+name, func(b *testing.B) {
				ctx := withParent(0)
				if parent == "sampled" {
					ctx = withParent(1)
				}
				rdb := newClient(b, addr, instrument)
				b.ReportAllocs()
				for b.Loop() {
					if err := rdb.Incr(ctx, "n").Err(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPipeline is a pipeline of three commands without a server.
func BenchmarkPipeline(b *testing.B) {
	for _, parent := range []string{"unsampled", "sampled"} {
		for name, instrument := range variants(b) {
			b.Run(parent+"/"+name, func(b *testing.B) {
				ctx := withParent(0)
				if parent == "sampled" {
					ctx = withParent(1)
				}
				rdb := newClient(b, "127.0.0.1:1", instrument)
				rdb.AddHook(answered{})
				b.ReportAllocs()
				for b.Loop() {
					p := rdb.Pipeline()
					p.Incr(ctx, "a")
					p.Get(ctx, "b")
					p.Set(ctx, "c", "value", 0)
					if _, err := p.Exec(ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
