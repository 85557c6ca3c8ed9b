package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// feature is one thing to try.
type feature struct {
	name    string
	needed  string
	without string
	try     func() error
}

const nothing = "nothing can be traced"

// list is all that the agent uses or may use, in the order in which
// doctor shows them.
func list(m *maps, cgroup string, mountErr error) []feature {
	hook := func(name, needed, without string) feature {
		return feature{"tp_btf/" + name, needed, without, func() error { return tracepoint(name).try(ret(0)) }}
	}
	receive := tracepoint("tcp_rcv_space_adjust")
	return []feature{
		{"btf", "programs that fit this kernel", nothing, tryBTF},
		hook("tcp_rcv_space_adjust", "messages received", nothing),
		hook("tcp_sendmsg_locked", "messages sent (Linux 6.16)", "responses and outgoing requests go unseen in this tier"),
		hook("sock_send_length", "messages sent, on kernels before tcp_sendmsg_locked (Linux 6.3)", "a future tier has one hook less"),
		hook("tcp_destroy_sock", "the end of requests whose connection closes", nothing),
		hook("sched_process_fork", "new processes of a traced service", nothing),
		hook("sched_process_exec", "services that start under the agent", nothing),
		hook("sched_process_exit", "forgetting processes that end", nothing),
		{"sock_ops", "connections as they open", nothing, func() error { return sockOps.try(ret(1)) }},
		{"sock_ops header options", "tags in TCP options: traces across services", nothing, func() error { return sockOps.try(headerOption()) }},
		{"cgroup attach", "sock_ops programs at work", nothing, func() error { return tryCgroup(cgroup, mountErr) }},
		{"sk_storage in tp_btf", "state of a connection", nothing, func() error { return receive.withMap(m, ebpf.SkStorage, skStorage) }},
		{"sk_storage in sock_ops", "state of a connection", nothing, func() error { return sockOps.withMap(m, ebpf.SkStorage, skStorageInSockOps) }},
		{"task_storage in tp_btf", "the request that a thread works for", nothing, func() error {
			return receive.withMap(m, ebpf.TaskStorage, func(fd int) asm.Instructions { return taskStorage(fd, 0) })
		}},
		{"task_storage in sock_ops", "binding a connection to its request when it opens (in Linux 6.18, not in 6.12)", nothing + " in this tier", func() error {
			return sockOps.withMap(m, ebpf.TaskStorage, func(fd int) asm.Instructions { return taskStorage(fd, 1) })
		}},
		{"ringbuf", "events for the agent", nothing, func() error { return m.try(ebpf.RingBuf) }},
		{"lpm_trie", "trusted networks", nothing, func() error { return m.try(ebpf.LPMTrie) }},
		{"bounded loops", "finding traceparent in a request", nothing, features.HaveBoundedLoops},
		{"read kernel memory", "addresses (refused under lockdown=confidentiality)", nothing, func() error {
			if err := receive.try(readMemory(asm.FnProbeReadKernel, 0)); err != nil {
				return err
			}
			return sockOps.try(readMemory(asm.FnProbeReadKernel, 1))
		}},
		{"read message bytes", "span names; traceparent", "spans without names: run with --payload off", func() error { return receive.try(readMessage()) }},
		{"iter/tcp", "connections that were open before the agent", "connections are traced from their next opening on", func() error { return iterTCP.try(ret(0)) }},
		{"iter/tcp sets sock_ops flags", "connections that were open before the agent", "connections are traced from their next opening on, and counted as unarmed", func() error { return tryArm(m) }},
		{"fentry", "a future tier for kernels before 6.16", "no such tier here", func() error {
			return program{ebpf.Tracing, ebpf.AttachTraceFEntry, "tcp_sendmsg"}.try(ret(0))
		}},
		{"kprobe", "a future tier for old kernels", "no such tier here", func() error {
			return tryProbe("kprobe")
		}},
		{"uprobe", "runtimes that need it (Go, TLS libraries), in the future", "such runtimes stay unlinked", func() error {
			return tryProbe("uprobe")
		}},
		{"bpf_stats", "ns per run of every program (--bpf-stats)", "the tracer's own cost is not shown", tryStats},
	}
}

// tryProbe asks for kprobes or uprobes, whose programs are of one type.
func tryProbe(name string) error {
	if err := tryPMU(name); err != nil {
		return err
	}
	return program{kind: ebpf.Kprobe}.try(ret(0))
}

func tryStats() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return err
	}
	return c.Close()
}
