package agent

import (
	"testing"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
)

// A counter of the kernel side that is not published would be a loss in
// silence.
func TestEveryKernelCounterIsPublished(t *testing.T) {
	published := map[bpf.Counter]int{}
	for _, k := range kernelCounters {
		published[k.counter]++
	}
	for c := bpf.Counter(0); c < bpf.TareCounterTARE_C_MAX; c++ {
		if published[c] != 1 {
			t.Errorf("counter %d (%s) is published %d times", c, kernel.CounterName(c), published[c])
		}
		if kernel.CounterName(c) == "" {
			t.Errorf("counter %d has no name", c)
		}
	}
}
