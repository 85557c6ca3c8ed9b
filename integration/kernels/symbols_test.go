package main

import (
	"strings"
	"testing"
)

func TestPartOf(t *testing.T) {
	kernel := parseSymbols(strings.NewReader(`ffffffff81000000 _text
ffffffff81200000 bpf_sk_storage_get
ffffffff81200000 ____bpf_sk_storage_get
ffffffff81300000 bpf_trace_run2
ffffffff81400000 tcp_sendmsg
ffffffffc0001000 bpf_prog_0123456789abcdef_tare_send	[bpf]
not a symbol
`))
	for _, tt := range []struct {
		at         uint64
		part, name string
	}{
		{0xffffffff81200010, helpers, "bpf_sk_storage_get"},
		{0xffffffff81300000, calling, "bpf_trace_run2"},
		{0xffffffff81400fff, rest, "tcp_sendmsg"},
		{0xffffffffc0001001, programs, "bpf:tare_send"},
		{0xffffffffc0001000 + maxSymbol + 1, rest, "unknown"},
		{0xffffffff80000000, rest, "unknown"},
		{0x401000, agentCode, agentCode},
		{loadAt + 16, loadCode, loadCode},
		{sinkAt, sinkCode, sinkCode},
		{0x555555556000, serviceCode, serviceCode},
		{0x7ffff7dd0000, serviceCode, serviceCode},
	} {
		if part, name := partOf(kernel, tt.at); part != tt.part || name != tt.name {
			t.Errorf("%#x: %s of %s, want %s of %s", tt.at, name, part, tt.name, tt.part)
		}
	}
}

func TestGoSymbols(t *testing.T) {
	s, err := goSymbols("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range s {
		if x.name == "runtime.main" {
			if got := s.of(x.at + 1); got != "runtime.main" {
				t.Errorf("behind its beginning: %q", got)
			}
			return
		}
	}
	t.Errorf("no runtime.main among %d functions", len(s))
}
