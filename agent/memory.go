package agent

import (
	"os"
	"runtime/debug"

	"github.com/tare-trace/tare/agent/platform"
)

const (
	maxQueueBytes = 16 << 20
	// What the agent needs beside the kernel's part: its heap with full queues, and its stacks.
	enoughMemory = 48 << 20
	// How much may be allocated beside what is in use until garbage is collected, in percent of that. Go's 100 is
	// for those that allocate more: nearly all that the agent holds, open spans and queued ones, is reused.
	garbage = 40
)

// queueBytes bounds the spans that wait for the receiver, which are what gives way first where a
// control group limits memory: they are lost and counted, before the kernel ends the agent.
func queueBytes() int {
	m, err := platform.ReadMemory()
	if err != nil || m.Limit == 0 {
		return maxQueueBytes
	}
	return int(min(m.Limit/8, maxQueueBytes)) //nolint:gosec // at most 16 MiB
}

// boundMemory has the garbage collector keep within what the control group leaves when the kernel
// programs and their maps are loaded, unless GOMEMLIMIT is set, and begin sooner, unless GOGC is. It
// changes nothing if the agent is a part of a collector, which has a limiter.
func (a *Agent) boundMemory() {
	if a.opts.Consume != nil {
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	m, err := platform.ReadMemory()
	if err != nil {
		a.log.Warn("cannot read how much memory this control group allows", "error", err)
	}
	if err != nil || m.Limit == 0 {
		return
	}
	left := m.Limit - min(m.Kernel, m.Limit)
	debug.SetMemoryLimit(int64(left - left/10)) //nolint:gosec // of a machine's memory
	with := []any{"limit_mib", m.Limit >> 20, "kernel_mib", m.Kernel >> 20, "left_mib", left >> 20}
	if left < enoughMemory {
		a.log.Warn("this control group allows little memory; if the kernel ends the agent, allow more: 128 MiB are enough", with...)
		return
	}
	a.log.Info("memory is limited by the control group", with...)
}
