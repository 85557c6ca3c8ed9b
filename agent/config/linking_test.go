package config_test

import (
	"testing"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/bpf"
)

func TestLinkingAgreesWithTheKernelSide(t *testing.T) {
	for l, c := range map[config.Linking]uint32{
		config.Auto:      uint32(bpf.LinkAuto),
		config.Thread:    uint32(bpf.LinkThread),
		config.Loop:      uint32(bpf.LinkLoop),
		config.None:      uint32(bpf.LinkNone),
		config.Queue:     uint32(bpf.LinkQueue),
		config.Goroutine: uint32(bpf.LinkGoroutine),
		config.Task:      uint32(bpf.LinkTask),
	} {
		if uint32(l) != c {
			t.Errorf("%v is %d here and %d there", l, l, c)
		}
	}
}
