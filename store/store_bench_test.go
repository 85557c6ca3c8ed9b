package store

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// BenchmarkWrite reports the time and the CPU of a span, the engine's work in
// the background included.
func BenchmarkWrite(b *testing.B) {
	const traces = 800
	s := open(b, Options{NoSync: true})
	// Marshalling does not depend on the ids, the memtable does.
	batches := make([]ptrace.Traces, 4)
	for i := range batches {
		batches[i] = shop(i*traces, traces)
	}
	b.ReportAllocs()
	cpu := processCPU()
	n := 0
	for b.Loop() {
		if err := s.Write(context.Background(), batches[n%len(batches)]); err != nil {
			b.Fatal(err)
		}
		n++
	}
	spans := float64(n * traces * 10)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/spans, "ns/span")
	b.ReportMetric(float64((processCPU()-cpu).Nanoseconds())/spans, "cpu-ns/span")
	b.ReportMetric(float64(s.Stats().Bytes)/spans, "disk-B/span")
}

// large is a store of a million spans; TARE_STORE_10M=1: ten millions.
func large(b *testing.B) (*Store, int) {
	const traces = 800
	n := 100_000
	if os.Getenv("TARE_STORE_10M") != "" {
		n *= 10
	}
	s := open(b, Options{NoSync: true})
	for i := 0; i < n; i += traces {
		write(b, s, shop(i, min(traces, n-i)))
	}
	return s, n
}

func BenchmarkRead(b *testing.B) {
	s, traces := large(b)
	ctx := context.Background()
	b.Run("Trace", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if td, err := s.Trace(ctx, traceID(uint64(1+i*7919%traces))); err != nil || td.SpanCount() != 10 {
				b.Fatal(td, err)
			}
			i++
		}
	})
	for name, q := range map[string]Query{
		"Recent":       {},
		"Service":      {Service: "cart", Status: NotFailed},
		"RareDuration": {Service: "cart", MinDuration: 16 * time.Millisecond, Limit: 1000},
		"NoDuration":   {Service: "gateway", MinDuration: time.Hour},
		"NoOperation":  {Operation: "nothing"},
		"Failed":       {Status: Failed, Service: "gateway", Limit: 1000},
		"Attribute":    {Attributes: map[string]string{"url.path": "/item/17"}},
		"NoAttribute":  {Attributes: map[string]string{"url.path": "/item/none"}},
		"Oldest":       {End: timeOf(hour0 + 1_000_000_000)},
		"ScanAll":      {Service: "gateway", Kind: 2, MinDuration: 14 * time.Millisecond, MaxDuration: 14*time.Millisecond + 100, Limit: 1000},
	} {
		b.Run("Search/"+name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				r, err := s.Search(ctx, q)
				if err != nil {
					b.Fatal(err)
				}
				if r.Truncated {
					b.Log("truncated at", r.Reached)
				}
				n = len(r.Traces)
			}
			b.ReportMetric(float64(n), "found")
		})
	}
	b.Run("Latencies", func(b *testing.B) {
		for b.Loop() {
			if l, err := s.Latencies(ctx, time.Time{}, time.Time{}, "", false); err != nil || len(l) != 4 {
				b.Fatal(l, err)
			}
		}
	})
	b.Run("LatenciesByOperation", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Latencies(ctx, time.Time{}, time.Time{}, "", true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Map", func(b *testing.B) {
		for b.Loop() {
			if m, err := s.Map(ctx, time.Time{}, time.Time{}); err != nil || len(m.Edges) != 6 {
				b.Fatal(m, err)
			}
		}
	})
	b.Run("Services", func(b *testing.B) {
		for b.Loop() {
			if l, err := s.Services(ctx); err != nil || len(l) != 4 {
				b.Fatal(l, err)
			}
		}
	})
}

// BenchmarkCommit is what it costs that a write is on the disk when it is acknowledged (sync),
// or given to the kernel (nosync): batches of 100 and of 8,190 spans, from one writer and from
// several, whose commits share syncs. `make durable-cost` compares the rounds.
func BenchmarkCommit(b *testing.B) {
	for _, traces := range []int{10, 819} {
		td := shop(0, traces)
		for _, writers := range []int{1, 8} {
			for _, mode := range []string{"nosync", "sync"} {
				b.Run(fmt.Sprintf("spans=%d/writers=%d/mode=%s", 10*traces, writers, mode), func(b *testing.B) {
					s := open(b, Options{NoSync: mode == "nosync"})
					var left atomic.Int64
					left.Store(int64(b.N))
					var done sync.WaitGroup
					b.ResetTimer()
					cpu := processCPU()
					for range writers {
						done.Go(func() {
							for left.Add(-1) >= 0 {
								if err := s.Write(context.Background(), td); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					done.Wait()
					spans := float64(b.N * traces * 10)
					b.ReportMetric(spans/b.Elapsed().Seconds(), "spans/s")
					b.ReportMetric(float64((processCPU()-cpu).Nanoseconds())/spans, "cpu-ns/span")
				})
			}
		}
	}
}
