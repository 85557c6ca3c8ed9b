package tier

import (
	"slices"

	"github.com/cilium/ebpf"
)

// SockOps is called for connections as they open and for options of their segments.
var SockOps = Hook{ebpf.SockOps, ebpf.AttachCGroupSockOps, ""}

// IterTCP walks the sockets of a network namespace.
var IterTCP = Hook{ebpf.Tracing, ebpf.AttachTraceIter, "tcp"}

// Run is called by the agent.
var Run = Hook{ebpf.Syscall, ebpf.AttachNone, ""}

// Claim is the program that every agent loads before it asks whether it is alone: package claim.
const Claim = "tare_claim"

// Ingress is called for packets before they are put in the queue of a cgroup's socket.
var Ingress = Hook{ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, ""}

// GetSockopt is called where a process has read an option of a socket, which is locked.
var GetSockopt = Hook{ebpf.CGroupSockopt, ebpf.AttachCGroupGetsockopt, ""}

// Egress is called for packets that leave by a device (Linux 6.6).
var Egress = Hook{ebpf.SchedCLS, ebpf.AttachTCXEgress, ""}

// Tracepoint is a tracepoint whose program gets the arguments as the kernel has them.
func Tracepoint(name string) Hook { return Hook{ebpf.Tracing, ebpf.AttachTraceRawTp, name} }

// Fentry is the entry of a kernel function, reached through a trampoline.
func Fentry(name string) Hook { return Hook{ebpf.Tracing, ebpf.AttachTraceFEntry, name} }

// Kprobe is the entry of a kernel function, reached through a breakpoint or ftrace.
func Kprobe(name string) Hook { return Hook{ebpf.Kprobe, ebpf.AttachNone, name} }

// SyscallTracepoint is the tracepoint of a system call: "sys_enter_write".
func SyscallTracepoint(name string) Hook {
	return Hook{ebpf.TracePoint, ebpf.AttachNone, syscalls(name)[0]}
}

// syscalls are such tracepoints, as tracefs names them.
func syscalls(names ...string) []string {
	for i := range names {
		names[i] = "syscalls/" + names[i]
	}
	return names
}

var (
	receive = Tracepoint("tcp_rcv_space_adjust")
	destroy = Tracepoint("tcp_destroy_sock")
)

// received is the program for what is received, of all tiers at TCP's functions.
var received = Program{
	Name: "tare_recv", Hook: receive,
	For: "messages received",
}

// turns is a program that sees what is received on other sockets than TCP's.
func turns(name string, hook Hook) Program {
	return Program{
		Name: name, Hook: hook, OnDemand: Loops,
		For:        "event loops that turn to what comes by UDP or a unix socket",
		Capability: "turns",
		Without:    "calls of an event loop that also uses unix sockets, or UDP, may be below another request",
	}
}

// inquires is a program that sees threads ask sockets for TCP_INFO.
func inquires(name string, hook Hook) Program {
	return Program{
		Name: name, Hook: hook,
		For:        "threads that take requests over from those that received them",
		Capability: "handovers",
		Without:    "requests that one thread receives and hands over, as Puma's reactor does, are not linked",
	}
}

// asked is the same where a program of control groups reaches the state of threads (Linux
// 6.16). It is called for every option of every socket.
var asked = func() Program {
	p := inquires("tare_getsockopt", GetSockopt)
	p.OnDemand = Handovers
	return p
}()

// All tiers, the best first. A tier for other kernels is one more entry here.
var All = []Tier{
	{
		Name:  "tracepoint",
		Since: "6.16",
		Programs: slices.Concat(programs(received, Program{
			Name: "tare_send", Hook: Tracepoint("tcp_sendmsg_locked"),
			For: "messages sent",
		}, turns("tare_turns", Tracepoint("sock_recv_length")), asked), unixSockets, lookups),
	},
	{
		Name:     "fentry",
		Switches: []string{"cfg_early"},
		Programs: programs(received, Program{
			Name: "tare_send", Hook: Fentry("tcp_sendmsg_locked"),
			For: "messages sent",
		}, turns("tare_unix_turns", Fentry("unix_stream_recvmsg")), turns("tare_udp_turns", Fentry("udp_recvmsg")), turns("tare_udp6_turns", Fentry("udpv6_recvmsg")), inquires("tare_inquires", Fentry("tcp_get_info")), Program{
			Name: "tare_sendpages", Hook: Fentry("do_tcp_sendpages"),
			For:        "messages sent by sendfile and splice (before Linux 6.5)",
			Capability: "sendfile",
			Without:    "what services send by sendfile and splice goes unseen",
			Until:      "6.5",
		}),
	},
	{
		Name:     "kprobe",
		Switches: []string{"cfg_early", "cfg_by_address"},
		Programs: programs(received, Program{
			Name: "tare_kprobe_send", Hook: Kprobe("tcp_sendmsg_locked"),
			For: "messages sent",
		}, turns("tare_unix_turns", Kprobe("unix_stream_recvmsg")), turns("tare_udp_turns", Kprobe("udp_recvmsg")), turns("tare_udp6_turns", Kprobe("udpv6_recvmsg")), inquires("tare_kprobe_inquires", Kprobe("tcp_get_info")), Program{
			Name: "tare_kprobe_sendpages", Hook: Kprobe("do_tcp_sendpages"),
			For:        "messages sent by sendfile and splice (before Linux 6.5)",
			Capability: "sendfile",
			Without:    "what services send by sendfile and splice goes unseen",
			Until:      "6.5",
		}),
	},
	{
		Name:     "syscall",
		ByName:   true,
		Switches: []string{"cfg_early", "cfg_by_address"},
		Programs: programs(Program{
			Name: "tare_call_received", Hook: SyscallTracepoint("sys_exit_read"),
			Also: syscalls("sys_exit_readv", "sys_exit_recvfrom", "sys_exit_recvmsg", "sys_exit_splice"),
			For:  "messages received",
		}, Program{
			Name: "tare_call_sends", Hook: SyscallTracepoint("sys_enter_write"),
			Also: syscalls("sys_enter_writev", "sys_enter_sendto", "sys_enter_sendmsg", "sys_enter_sendmmsg",
				"sys_enter_sendfile64", "sys_enter_splice"),
			For: "messages sent",
		}),
	},
}

// unixSockets are the programs for connections over unix stream sockets, which are
// followed only where all are attached. No tracepoint tells that such a socket is
// closed: the agent looks.
var unixSockets = []Program{
	ofUnix("tare_unix_connects", Hook{ebpf.CGroupSockAddr, ebpf.AttachCgroupUnixConnect, ""}, "",
		"connections that are opened over unix sockets"),
	unixSends(),
	ofUnix("tare_unix_sent", Tracepoint("sock_send_length"), Unix, "how much is sent over unix sockets"),
	ofUnix("tare_unix_received", Tracepoint("sock_recv_length"), Unix, "messages received over unix sockets"),
	ofUnix("tare_unix_sweep", Run, "", "the end of requests whose unix socket was closed"),
}

// unixSends is skippable: what interrupts it is a packet that is queued to a TCP or UDP
// socket, which it leaves alone.
func unixSends() Program {
	p := ofUnix("tare_unix_sends", Tracepoint("sk_data_ready"), Unix, "messages sent over unix sockets")
	p.Skippable = true
	return p
}

func ofUnix(name string, hook Hook, of Demand, what string) Program {
	return Program{
		Name: name, Hook: hook, OnDemand: of, For: what,
		Capability: "unix",
		Without:    "connections over unix sockets are not seen: traces end there, and what is behind them begins its own",
	}
}

// lookups are the programs for look-ups of names, where a program of control groups
// reaches the state of threads (Linux 6.16). What sees answers comes before what sees
// questions: a question that is seen has its answer seen, or would look unanswered.
var lookups = []Program{
	resolves("tare_connect4", ebpf.AttachCGroupInet4Connect),
	resolves("tare_connect6", ebpf.AttachCGroupInet6Connect),
	resolves("tare_sendmsg4", ebpf.AttachCGroupUDP4Sendmsg),
	resolves("tare_sendmsg6", ebpf.AttachCGroupUDP6Sendmsg),
	lookup("tare_hears_name", ebpf.AttachCGroupInetIngress, "answers to names that services look up"),
	lookup("tare_asks_name", ebpf.AttachCGroupInetEgress, "names that services look up"),
}

func resolves(name string, at ebpf.AttachType) Program {
	return ofLookups(Program{
		Name: name, Hook: Hook{ebpf.CGroupSockAddr, at, ""},
		For: "services that begin to look names up",
	})
}

func lookup(name string, at ebpf.AttachType, what string) Program {
	return ofLookups(Program{Name: name, Hook: Hook{ebpf.CGroupSKB, at, ""}, OnDemand: Lookups, For: what})
}

func ofLookups(p Program) Program {
	p.Capability = "lookups"
	p.Without = "look-ups of names have no spans"
	return p
}

// IP are the programs that --tag ip needs beside those of a tier.
var IP = []Program{
	{Name: "tare_ingress", Hook: Ingress, For: "contexts in the IP headers of packets that come in"},
	{Name: "tare_egress", Hook: Egress, For: "contexts in the IP headers of packets that leave"},
}

// programs are those of a tier: its own for what is received and sent, and what all share.
func programs(own ...Program) []Program {
	return slices.Concat(own, []Program{
		// What interrupts tare_destroy or tare_state is a packet that ends another connection. The other of the
		// two runs for that one, and does what is left.
		{
			Name: "tare_destroy", Hook: destroy, Skippable: true,
			For: "the end of requests whose connection closes",
		},
		{
			Name: "tare_state", Hook: Tracepoint("inet_sock_set_state"), Skippable: true,
			For: "connections that services open, and the end of requests that are closed without an answer",
		},
		{
			Name: "tare_switch", Hook: Tracepoint("sched_switch"), OnDemand: Proofs,
			For: "how threads wait for answers, before the first of their calls is linked",
		},
		{
			Name: "tare_sockops", Hook: SockOps,
			For: "connections as they open",
		},
		{
			Name: "tare_exit", Hook: Tracepoint("sched_process_exit"),
			For: "forgetting processes that end",
		},
		{
			Name: "tare_fork", Hook: Tracepoint("sched_process_fork"),
			For:        "new processes of a traced service",
			Capability: "forked_processes",
			Without:    "new processes of a traced service are traced from the next scan on, up to 10 s late",
		},
		{
			Name: "tare_exec", Hook: Tracepoint("sched_process_exec"),
			For:        "services that start under the agent",
			Capability: "started_services",
			Without:    "services that start, and processes that become another program, are known from the next scan on, up to 10 s late",
		},
		{
			Name: "tare_arm", Hook: IterTCP,
			For:        "connections that were open before the agent",
			Capability: "open_connections",
			Without:    "connections are traced from their next opening on",
		},
	})
}
