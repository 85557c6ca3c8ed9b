package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// kill -9 under load, with the default configuration and with every setting of
// docs/collector.md: what was acknowledged is there when the collector runs again, though it
// waited for the rest of its traces, was being passed on or written when the process ended;
// and nothing is there twice.
func TestCollectorKilledUnderLoad(t *testing.T) {
	for _, sync := range []string{"true", "false"} {
		t.Run("sync="+sync, func(t *testing.T) {
			setting := "extensions.tare_store.sync=" + sync
			dir := t.TempDir()
			acknowledged := 0
			ids := map[string]bool{}
			for round := range 3 {
				s := storeIn(t, dir, "--set", setting)
				for _, id := range underLoad(t, s, round) {
					ids[id] = true
				}
				acknowledged = len(ids) * killedSpans
			}
			if acknowledged == 0 {
				t.Fatal("nothing was acknowledged")
			}
			s := storeIn(t, dir, "--set", setting)
			var stats struct {
				Spans  int
				Damage struct {
					Lost int `json:"lost_spans"`
				}
			}
			until(t, 2*time.Minute, fmt.Sprintf("%d spans are stored", acknowledged), func() bool {
				return s.get("/api/v1/stats", &stats) == nil && stats.Spans >= acknowledged
			})
			if stats.Damage.Lost > 0 {
				t.Errorf("the store says that %d spans are lost", stats.Damage.Lost)
			}
			lost, double := 0, 0
			for id := range ids {
				var trace struct{ Spans []struct{ ID string } }
				if err := s.get("/api/v1/traces/"+id, &trace); err != nil {
					lost += killedSpans
					continue
				}
				different := map[string]bool{}
				for _, span := range trace.Spans {
					different[span.ID] = true
				}
				lost += killedSpans - len(different)
				double += len(trace.Spans) - len(different)
			}
			t.Logf("3 kills: %d spans acknowledged, %d lost, %d there twice", acknowledged, lost, double)
			if lost > 0 || double > 0 {
				t.Errorf("of %d acknowledged spans %d are lost and %d are there twice", acknowledged, lost, double)
			}
		})
	}
}

const (
	killedTraces = 20 // of a request
	killedSpans  = 9  // of a trace
)

// underLoad sends to the collector from several connections, kills it while they send, and
// returns the ids of the traces that were acknowledged.
func underLoad(t *testing.T, s *stored, round int) (ids []string) {
	t.Helper()
	var mu sync.Mutex
	var senders sync.WaitGroup
	var taken atomic.Int64
	enough := make(chan struct{})
	for n := range 4 {
		client := dialOTLP(t, s.otlp, nil)
		senders.Go(func() {
			for i := 0; ; i++ {
				seed := uint64(1 + i + 10_000*n + 100_000*round)
				if export(t.Context(), client, someTraces(seed, killedTraces, killedSpans)) != nil {
					return
				}
				mu.Lock()
				for k := range killedTraces {
					ids = append(ids, fmt.Sprintf("%016x%016x", seed, k+1))
				}
				mu.Unlock()
				if taken.Add(1) == 40 {
					close(enough)
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(time.Minute):
		t.Error("40 requests were not taken within a minute")
	}
	s.kill()
	senders.Wait()
	return ids
}
