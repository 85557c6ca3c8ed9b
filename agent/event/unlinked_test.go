package event

import (
	"testing"

	"github.com/tare-trace/tare/bpf"
)

// Every reason has a name of its own, and an explanation.
func TestUnlinkedReasons(t *testing.T) {
	names := map[string]bool{}
	for r := uint32(1); r < uint32(bpf.TareUnlinkedTARE_UNLINKED_MAX); r++ {
		name := UnlinkedName(r)
		if name == "" || names[name] || UnlinkedWhy(r) == "" {
			t.Errorf("reason %d: name %q, why %q", r, name, UnlinkedWhy(r))
		}
		names[name] = true
	}
	for _, r := range []uint32{0, uint32(bpf.TareUnlinkedTARE_UNLINKED_MAX), 1 << 31} {
		if UnlinkedName(r) != "" || UnlinkedWhy(r) != "" {
			t.Errorf("reason %d has a name", r)
		}
	}
}
