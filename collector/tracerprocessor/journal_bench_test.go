package tracerprocessor

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/store"
)

// toStore writes into a store, as the exporter does without a queue.
type toStore struct {
	consumer.Traces
	store *store.Store
}

func (s toStore) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s toStore) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	return s.store.Write(ctx, td)
}

// BenchmarkDurable takes requests of 100 spans, from as many senders as are told by -cpu
// times 8, into the store, with what is acknowledged on the disk (sync), given to the kernel
// (nosync), or in memory (memory). `make durable-cost` compares the rounds.
func BenchmarkDurable(b *testing.B) {
	for _, mode := range []string{"memory", "nosync", "sync"} {
		b.Run("mode="+mode, func(b *testing.B) {
			e := storeIn(b, filepath.Join(b.TempDir(), "store"), mode == "sync")
			next := toStore{store: e.(storeextension.Extension).Store()}
			p := journaled(b, e, func(c *Config) {
				c.Settle = 0
				if mode == "memory" {
					c.Journal = nil
				}
			}, next)
			var trace atomic.Uint64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					td := ptrace.NewTraces()
					for range 10 {
						n := trace.Add(1)
						for i := range uint64(10) {
							add(td, n, 10*n+i+1, min(i, 1)*(10*n+1)).SetName("GET /item/{id}")
						}
					}
					if err := p.ConsumeTraces(context.Background(), td); err != nil {
						b.Fatal(err)
					}
				}
			})
			stop(b, p)
			b.StopTimer()
			b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "spans/s")
			stop(b, e)
		})
	}
}
