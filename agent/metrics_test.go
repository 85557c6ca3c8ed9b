package agent

import (
	"testing"

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
			t.Errorf("counter %d of event.h is published %d times", c, published[c])
		}
	}
}
