package config_test

import (
	"testing"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/bpf"
)

func TestLinkingAgreesWithTheKernelSide(t *testing.T) {
	for l, c := range map[config.Linking]bpf.TareLinking{
		config.Auto:   bpf.TareLinkingTARE_LINK_AUTO,
		config.Thread: bpf.TareLinkingTARE_LINK_THREAD,
		config.Loop:   bpf.TareLinkingTARE_LINK_LOOP,
		config.None:   bpf.TareLinkingTARE_LINK_NONE,
		config.Queue:  bpf.TareLinkingTARE_LINK_QUEUE,
	} {
		if uint32(l) != uint32(c) {
			t.Errorf("%v is %d here and %d there", l, l, c)
		}
	}
}
