package tier

import "github.com/cilium/ebpf"

// SockOps is called for connections as they open and for options of their segments.
var SockOps = Hook{ebpf.SockOps, ebpf.AttachCGroupSockOps, ""}

// IterTCP walks the sockets of a network namespace.
var IterTCP = Hook{ebpf.Tracing, ebpf.AttachTraceIter, "tcp"}

// Tracepoint is a tracepoint whose program gets the arguments as the kernel has them.
func Tracepoint(name string) Hook { return Hook{ebpf.Tracing, ebpf.AttachTraceRawTp, name} }

var (
	receive = Tracepoint("tcp_rcv_space_adjust")
	send    = Tracepoint("tcp_sendmsg_locked")
	destroy = Tracepoint("tcp_destroy_sock")
)

// All tiers, the best first. A tier for other kernels is one more entry here.
var All = []Tier{
	{
		Name:  "tracepoint",
		Needs: []string{"btf"},
		Programs: []Program{
			{
				Name: "tare_recv", Hook: receive,
				For:   "messages received",
				Needs: []string{"sk_storage in tp_btf", "task_storage in tp_btf", "ringbuf", "bounded loops", "read kernel memory"},
			},
			{
				Name: "tare_send", Hook: send,
				For:     "messages sent (Linux 6.16)",
				Needs:   []string{"sk_storage in tp_btf", "task_storage in tp_btf", "ringbuf", "read kernel memory"},
				Without: "responses and outgoing requests go unseen in this tier",
			},
			{
				Name: "tare_destroy", Hook: destroy,
				For:   "the end of requests whose connection closes",
				Needs: []string{"sk_storage in tp_btf", "ringbuf"},
			},
			{
				Name: "tare_state", Hook: Tracepoint("inet_sock_set_state"),
				For:        "requests whose connection is closed without an answer",
				Needs:      []string{"sk_storage in tp_btf"},
				Capability: "unanswered_requests",
				Without:    "services of threads that leave requests unanswered seem to work for several at once, and are not linked any more",
			},
			{
				Name: "tare_sockops", Hook: SockOps,
				For: "connections as they open",
				Needs: []string{
					"sock_ops header options", "cgroup attach", "sk_storage in sock_ops", "task_storage in sock_ops",
					"lpm_trie", "ringbuf", "read kernel memory",
				},
			},
			{
				Name: "tare_exit", Hook: Tracepoint("sched_process_exit"),
				For:   "forgetting processes that end",
				Needs: []string{"ringbuf"},
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
				Needs:      []string{"ringbuf"},
				Capability: "started_services",
				Without:    "services that start, and processes that become another program, are known from the next scan on, up to 10 s late",
			},
			{
				Name: "tare_arm", Hook: IterTCP,
				For:        "connections that were open before the agent",
				Needs:      []string{"iter/tcp sets sock_ops flags", "lpm_trie"},
				Capability: "open_connections",
				Without:    "connections are traced from their next opening on",
			},
		},
	},
}

const nothing = "nothing can be traced"

var btf = Feature{Name: "btf", Needed: "programs that fit this kernel", Without: nothing}

// features that are no hooks: of tiers by their names, the last two of options.
var features = []Feature{
	{Name: "sock_ops header options", Needed: "tags in TCP options: traces across services", Without: nothing},
	{Name: "cgroup attach", Needed: "sock_ops programs at work", Without: nothing},
	{Name: "sk_storage in tp_btf", Needed: "state of a connection", Without: nothing},
	{Name: "sk_storage in sock_ops", Needed: "state of a connection", Without: nothing},
	{Name: "task_storage in tp_btf", Needed: "the request that a thread works for", Without: nothing},
	{Name: "task_storage in sock_ops", Needed: "binding a connection to its request when it opens (in Linux 6.18, not in 6.12)", Without: nothing + " in this tier"},
	{Name: "ringbuf", Needed: "events for the agent", Without: nothing},
	{Name: "lpm_trie", Needed: "trusted networks", Without: nothing},
	{Name: "bounded loops", Needed: "finding traceparent in a request", Without: nothing},
	{Name: "read kernel memory", Needed: "addresses (refused under lockdown=confidentiality)", Without: nothing},
	{Name: "iter/tcp sets sock_ops flags", Needed: "connections that were open before the agent", Without: "connections are traced from their next opening on, and counted as unarmed"},
	{Name: "read message bytes", Needed: "span names; traceparent", Without: "spans without names: run with --payload off"},
	{Name: "bpf_stats", Needed: "ns per run of every program (--bpf-stats)", Without: "the tracer's own cost is not shown"},
}

// unused are hooks that no tier has yet; they tell what one could have here.
var unused = []Feature{
	{Name: "tp_btf/sock_send_length", Needed: "messages sent, on kernels before tcp_sendmsg_locked (Linux 6.3)", Without: "a future tier has one hook less", Hook: &Hook{ebpf.Tracing, ebpf.AttachTraceRawTp, "sock_send_length"}},
	{Name: "fentry", Needed: "a future tier for kernels before 6.16", Without: "no such tier here", Hook: &Hook{ebpf.Tracing, ebpf.AttachTraceFEntry, "tcp_sendmsg"}},
	{Name: "kprobe", Needed: "a future tier for old kernels", Without: "no such tier here"},
	{Name: "uprobe", Needed: "runtimes that need it (Go, TLS libraries), in the future", Without: "such runtimes stay unlinked"},
}
