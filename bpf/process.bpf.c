//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Traced processes and their threads come and go: a fork is traced like its parent, an exec is told
 * to the agent, which knows the rules, an exit is forgotten. A program that a request may have started
 * is traced whatever the rules say: its calls are the service's, and are linked to the request or said.
 */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(tare_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	struct service *svc = bpf_map_lookup_elem(&processes, &from);
	if (!svc)
		return 0;
	worker_cloned(svc, parent, child);
	if (from == to)
		return 0;
	struct service of = *svc;
	const struct service_state *state = service_of(of.index);
	of.thread_stack |= parent->pid != from;
	of.helper |= state && service_busy(state);
	worker_may_turn(svc);
	bpf_map_update_elem(&processes, &to, &of, BPF_ANY);
	published_forked(from, to);
	if (svc->linking == TARE_LINK_TASK)
		task_forked(to);
	return 0;
}

/* The agent attaches this while some service wants it: proof.bpf.h. */
SEC("tp_btf/sched_switch")
int BPF_PROG(tare_switch, bool preempt, struct task_struct *prev)
{
	if (prev->bpf_storage && prev->__state & TASK_INTERRUPTIBLE)
		proof_sleeps(prev);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(tare_exec, struct task_struct *task)
{
	u32 tgid = task->tgid;
	bpf_map_delete_elem(&task_programs, &tgid);
	bpf_map_delete_elem(&publishers, &tgid);
	struct control_record r = {.type = TARE_EXEC, .tgid = tgid};
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (svc && svc->helper) {
		svc->linking = TARE_LINK_AUTO;
		r.service = svc->index;
	}
	control_tell(&r);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(tare_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;
	worker_exited(task);
	if (task->pid == tgid && !bpf_map_delete_elem(&processes, &tgid)) {
		bpf_map_delete_elem(&task_programs, &tgid);
		bpf_map_delete_elem(&publishers, &tgid);
		control_tell_of(TARE_EXIT, tgid);
	}
	return 0;
}
