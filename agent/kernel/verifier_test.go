package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// Instructions that the verifier may walk. It gives up at 1,000,000 for one
// program, and other kernels walk other paths; the sum is what a start costs.
const (
	maxVerified       = 160_000 // of one program
	maxVerifiedOfTier = 560_000 // of all that a tier loads, with every option; 6.1 walks functions that an option leaves out, too
	moreForRetro      = 40_000  // of both, where records of requests that are not sampled have a place of their own
)

// The tiers differ in their hooks: the first that this kernel has is tried with every set of options, others with none
// and with the two largest.
func TestVerifierAccepts(t *testing.T) {
	largest := []Options{
		{},
		{Payload: true, Traceparent: true, ParentBased: true, Sequence: true, Metrics: true, SameHost: true, ArmNV: loadNV() == nil, Retro: RetroLeast},
		{Tag: bpf.TagIP, Payload: true, Traceparent: true, ParentBased: true, Sequence: true, SameHost: true, Retro: RetroLeast},
	}
	sets := append([]Options{
		{Payload: true, Traceparent: true, ParentBased: true},
		{Payload: true, Traceparent: true, ParentBased: true, SameHost: true, Retro: RetroLeast},
		{Tag: bpf.TagNone, Payload: true, Traceparent: true, ParentBased: true, Sequence: true},
	}, largest...)
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		of := sets
		sets = largest
		for _, o := range of {
			o.Tier = chosen.Name
			tracer, err := Load(withCgroup(t, o))
			var verifier *ebpf.VerifierError
			if errors.As(err, &verifier) {
				log := verifier.Log
				t.Fatalf("refused; the last lines:\n%s", strings.Join(log[max(0, len(log)-30):], "\n"))
			}
			if o.Tag == bpf.TagIP && errors.Is(err, errNoEgress) {
				t.Log(err)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			defer tracer.Close()
			var sum, more uint32
			if o.Retro > 0 {
				more = moreForRetro
			}
			for _, p := range tracer.programs {
				info, err := p.loaded.Info()
				if err != nil {
					t.Fatal(err)
				}
				n, ok := info.VerifiedInstructions()
				if !ok {
					t.Fatal("the kernel does not tell how many instructions were verified (Linux 5.16)")
				}
				t.Logf("%-20s %7d instructions walked", p.Name, n)
				if sum += n; n > maxVerified+more {
					t.Errorf("%s: the verifier walked %d instructions, keep it below %d", p.Name, n, maxVerified+more)
				}
			}
			t.Logf("%-20s %7d, with %+v", "sum", sum, o)
			if sum > maxVerifiedOfTier+more {
				t.Errorf("the verifier walked %d instructions in all, keep it below %d: %+v", sum, maxVerifiedOfTier+more, o)
			}
		}
	})
}
