package kernel

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/bpf"
)

// Counters sums the kernel side's counters over all CPUs: N by enum counter of
// event.h, Unlinked by enum unlinked.
func (t *Tracer) Counters() (sum bpf.TareCounters, err error) {
	var perCPU []bpf.TareCounters
	if err := t.objs.TareMaps.Counters.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("read the counters: %w", err)
	}
	for _, c := range perCPU {
		for i, n := range c.N {
			sum.N[i] += n
		}
		for i, n := range c.Unlinked {
			sum.Unlinked[i] += n
		}
	}
	return sum, nil
}

// LiveRequests is how many sampled requests wait for their response.
func (t *Tracer) LiveRequests() (n uint64, err error) {
	err = t.objs.LiveRequests.Get(&n)
	return n, err
}

// ProgramStats tells how often a kernel program ran and how long, since it
// was loaded. Runs and Runtime are 0 unless statistics are enabled.
type ProgramStats struct {
	Name    string // as the kernel shows it, without the prefix
	Hook    string // where it is attached
	Runs    uint64
	Runtime time.Duration
	Missed  uint64 // calls that the kernel left out and that lose something (tier.Program.Skippable); always counted
}

// Programs lists all programs that are attached, in the order of their tier.
func (t *Tracer) Programs() ([]ProgramStats, error) {
	list := make([]ProgramStats, 0, len(t.programs))
	for _, p := range t.programs {
		s, err := p.loaded.Stats()
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", p.Name, err)
		}
		missed := s.RecursionMisses
		if p.Skippable {
			missed = 0
		}
		list = append(list, ProgramStats{
			Name: strings.TrimPrefix(p.Name, "tare_"), Hook: strings.TrimPrefix(p.Hook.String(), "tp_btf/"),
			Runs: s.RunCount, Runtime: s.Runtime, Missed: missed,
		})
	}
	return list, nil
}

// EnableStats lets the kernel measure every program until the result is
// closed. Measuring costs tens of nanoseconds a run.
func EnableStats() (io.Closer, error) {
	c, err := ebpf.EnableStats(uint32(0)) // BPF_STATS_RUN_TIME
	if err != nil {
		return nil, fmt.Errorf("enable BPF statistics (Linux 5.8, CAP_SYS_ADMIN): %w", err)
	}
	return c, nil
}
