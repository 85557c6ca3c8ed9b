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

// Hooks that cost something are attached while they are asked for, each kind for its
// own time; while a process needs them; and when a program has begun. At the start
// those go that nobody has asked for.
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
		after := func(pause time.Duration) {
			time.Sleep(pause)
			synctest.Wait()
		}
		asks := func(pause time.Duration, kind bpf.TareControlType) {
			after(pause)
			d.control(bpf.Control{Type: uint32(kind)})
		}
		holds := func(pause time.Duration, processes int) {
			after(pause)
			d.hold(tier.Handovers, processes)
		}
		asks(0, bpf.TareControlTypeTARE_LOOKS_UP) // attached still
		after(time.Second)
		d.start()                                              // 0:01
		asks(58*time.Second, bpf.TareControlTypeTARE_LOOKS_UP) // 0:59
		asks(62*time.Second, bpf.TareControlTypeTARE_EXIT)
		asks(59*time.Second, bpf.TareControlTypeTARE_LOOKS_UP) // 3:00
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
		after(2 * time.Minute)
		d.began() // 2:11:30
		after(2 * time.Minute)
		want := []string{
			"1s proofs false", "1s loops false", "1s handovers false", "1s unix false", "1m59s lookups false",
			"3m0s lookups true", "3m0s proofs true",
			"3m5s proofs false", "4m0s lookups false", "6m0s lookups false",
			"7m0s handovers true", "2h10m30s handovers false",
			"2h11m30s lookups true", "2h11m30s unix true", "2h12m30s lookups false", "2h12m30s unix false",
		}
		slices.Sort(did) // several at the same time, in any order
		slices.Sort(want)
		if !slices.Equal(did, want) {
			t.Errorf("%q, want %q", did, want)
		}
	})
}
