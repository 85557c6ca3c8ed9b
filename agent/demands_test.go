package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Hooks that cost something stay attached while they are asked for, each kind for its
// own time, and are attached again when somebody asks; or while a process needs them.
func TestDemands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		var refuse atomic.Bool
		began := time.Now()
		d := newDemands(func(of tier.Demand, on bool) error {
			did = append(did, fmt.Sprintf("%v %s %v", time.Since(began), of, on))
			if refuse.Load() {
				return errors.New("refused")
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		asks := func(after time.Duration, kind bpf.TareControlType) {
			time.Sleep(after)
			synctest.Wait()
			d.control(bpf.Control{Type: uint32(kind)})
		}
		holds := func(after time.Duration, processes int) {
			time.Sleep(after)
			synctest.Wait()
			d.hold(tier.Handovers, processes)
		}
		asks(4*time.Second, bpf.TareControlTypeTARE_UNPROVEN)  // 0:04, attached still
		asks(54*time.Second, bpf.TareControlTypeTARE_LOOKS_UP) // 0:58, likewise
		asks(62*time.Second, bpf.TareControlTypeTARE_EXIT)
		asks(60*time.Second, bpf.TareControlTypeTARE_LOOKS_UP) // 3:00
		asks(0, bpf.TareControlTypeTARE_UNPROVEN)
		refuse.Store(true)
		asks(2*time.Minute, bpf.TareControlTypeTARE_EXIT)
		refuse.Store(false)
		asks(0, bpf.TareControlTypeTARE_LOOKS_UP) // it could not be detached
		holds(2*time.Minute, 1)                   // 7:00
		holds(0, 1)
		holds(time.Hour, -1)
		holds(time.Hour, -1) // 2:07:00
		holds(30*time.Second, 1)
		holds(2*time.Minute, -1) // 2:09:30
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []string{
			"9s proofs false", "1m0s handovers false", "1m0s unix false", "1m58s lookups false",
			"3m0s lookups true", "3m0s proofs true",
			"3m5s proofs false", "4m0s lookups false", "6m0s lookups false",
			"7m0s handovers true", "2h10m30s handovers false",
		}
		slices.Sort(did) // several at the same time, in any order
		slices.Sort(want)
		if !slices.Equal(did, want) {
			t.Errorf("%q, want %q", did, want)
		}
	})
}
