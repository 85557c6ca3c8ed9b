package probe

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/tier"
)

// receive is the tracepoint where features of programs at tracepoints are tried.
var receive = tier.Tracepoint("tcp_rcv_space_adjust")

// attempts are how the features that are no hooks are tried, by name.
func attempts(m *maps, cgroup string, mountErr error) map[string]func() error {
	taskStorageIn := func(h tier.Hook, result int32) func() error {
		return func() error {
			return tryWithMap(h, m, ebpf.TaskStorage, func(fd int) asm.Instructions { return taskStorage(fd, result) })
		}
	}
	return map[string]func() error{
		"btf":                          tryBTF,
		"sock_ops header options":      func() error { return try(tier.SockOps, headerOption()) },
		"cgroup attach":                func() error { return tryCgroup(cgroup, mountErr) },
		"sk_storage in tp_btf":         func() error { return tryWithMap(receive, m, ebpf.SkStorage, skStorage) },
		"sk_storage in sock_ops":       func() error { return tryWithMap(tier.SockOps, m, ebpf.SkStorage, skStorageInSockOps) },
		"task_storage in tp_btf":       taskStorageIn(receive, 0),
		"task_storage in sock_ops":     taskStorageIn(tier.SockOps, 1),
		"ringbuf":                      func() error { return m.try(ebpf.RingBuf) },
		"lpm_trie":                     func() error { return m.try(ebpf.LPMTrie) },
		"bounded loops":                features.HaveBoundedLoops,
		"read kernel memory":           tryReadKernel,
		"read message bytes":           func() error { return try(receive, readMessage()) },
		"iter/tcp sets sock_ops flags": func() error { return tryArm(m) },
		"kprobe":                       func() error { return tryProbe("kprobe") },
		"uprobe":                       func() error { return tryProbe("uprobe") },
		"bpf_stats":                    tryStats,
	}
}

// attempt tries one feature of the table.
func attempt(f tier.Feature, others map[string]func() error) error {
	if f.Hook != nil {
		return tryHook(*f.Hook)
	}
	try, ok := others[f.Name]
	if !ok {
		return fmt.Errorf("%w: nothing here tries it", errUnknown)
	}
	return try()
}

func tryReadKernel() error {
	if err := try(receive, readMemory(asm.FnProbeReadKernel, 0)); err != nil {
		return err
	}
	return try(tier.SockOps, readMemory(asm.FnProbeReadKernel, 1))
}

// tryProbe asks for kprobes or uprobes, whose programs are of one type.
func tryProbe(name string) error {
	if err := tryPMU(name); err != nil {
		return err
	}
	return try(tier.Hook{Type: ebpf.Kprobe}, ret(0))
}

func tryStats() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return err
	}
	return c.Close()
}
