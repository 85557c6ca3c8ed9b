package integration

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// kill -9 under load, with the default configuration and with every setting of
// docs/collector.md: what was acknowledged is there when the collector runs again, though it
// waited for the rest of its traces, was being passed on or written when the process ended;
// and nothing is there twice.
func TestCollectorKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"true", "false"} {
		t.Run("sync="+sync, func(t *testing.T) {
			setting := "extensions.tare_store.sync=" + sync
			dir := t.TempDir()
			ids := map[string]bool{}
			for round := range 3 {
				s := storeIn(t, dir, "--set", setting)
				for _, id := range underLoad(t, s, round) {
					ids[id] = true
				}
			}
			if len(ids) == 0 {
				t.Fatal("nothing was acknowledged")
			}
			// The store holds traces as well that were taken and not yet acknowledged when the
			// process ended: how many spans it has says nothing about which.
			s := storeIn(t, dir, "--set", setting)
			spans := func(trace string) (all, different int) {
				var answer struct{ Spans []struct{ ID string } }
				if s.get("/api/v1/traces/"+trace, &answer) != nil {
					return 0, 0
				}
				seen := map[string]bool{}
				for _, span := range answer.Spans {
					seen[span.ID] = true
				}
				return len(answer.Spans), len(seen)
			}
			missing := maps.Clone(ids)
			if !testkit.ComesTrue(2*time.Minute, func() bool {
				maps.DeleteFunc(missing, func(id string, _ bool) bool {
					_, different := spans(id)
					return different == killedSpans
				})
				return len(missing) == 0
			}) {
				t.Errorf("of %d acknowledged traces %d are not whole", len(ids), len(missing))
			}
			double := 0
			for id := range ids {
				all, different := spans(id)
				double += all - different
			}
			t.Logf("3 kills: %d traces acknowledged, %d not whole, %d spans there twice", len(ids), len(missing), double)
			if double > 0 {
				t.Errorf("of %d acknowledged spans %d are there twice", len(ids)*killedSpans, double)
			}
			var stats struct {
				Damage struct {
					Lost int `json:"lost_spans"`
				}
			}
			if err := s.get("/api/v1/stats", &stats); err != nil || stats.Damage.Lost > 0 {
				t.Errorf("the store says that %d spans are lost (%v)", stats.Damage.Lost, err)
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
	case <-time.After(testkit.Patient(time.Minute)):
		t.Error("40 requests were not taken within a minute")
	}
	s.Kill()
	senders.Wait()
	return ids
}
