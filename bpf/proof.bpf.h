/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The proof that a service's threads work for one request at a time. The guard sees what contradicts
 * that; but a loop of select or poll that asks for a request only after it has answered it, and never
 * has two at once, shows nothing. So the first link waits until threads of the service were seen,
 * during PROOFS requests, to sleep until the answer to what they asked comes, and not to sleep
 * waiting for connections too, as a loop does: that is evidence.
 *
 * A coroutine on a stack of its own does not sleep: its thread leaves it, while it waits for an answer, and
 * goes on with it later. So such services are proven by requests that were answered on the stack that they
 * were received on, after the thread was seen elsewhere, once something was sent for them: at a
 * receipt, or asleep. A loop that runs on such a stack as a whole is nowhere else.
 *
 * How a thread sleeps is told by the wait queues of sockets: a thread that receives is in that of its
 * socket itself, one that polls with all that it polls (struct poll_wqueues). The hook, where
 * threads are switched, costs something for each of the host's; so the agent attaches it only while a
 * service asks for it, and a service asks PROOF_ASKS times at most.
 */
#ifndef TARE_PROOF_H
#define TARE_PROOF_H

#define PROOF_ASKS  60
#define PROOF_PAUSE 500000000 /* ns, between them */

#define WAITERS 2 /* of a socket, that are looked at */
#define POLLED                                                                                     \
	8 /* files that a thread polls; with more, the kernel's list of them has pages of its own */

#define TASK_INTERRUPTIBLE 1

INLINE void tell_decision(u32 type, u16 service, u32 reason)
{
	struct control_record r = {.type = type, .service = service, .reason = reason};
	r.tgid = bpf_get_current_pid_tgid() >> 32;
	control_tell(&r);
}

/* The first sends of a service that the guard does not doubt are not linked, but watched. */
INLINE bool unproven(const struct conn *c)
{
	struct service_state *svc = guarded(c) ? service_of(c->service) : 0;
	return svc && svc->proofs < PROOFS && !svc->refused;
}

/* The same of those by coroutines. */
INLINE bool stack_unproven(const struct conn *c)
{
	struct service_state *svc = service_of(c->service);
	return svc && svc->stacks < PROOFS && !svc->refused;
}

/* The thread receives a request. */
INLINE void proof_begins(struct conn *c)
{
	struct thread_state *t = unproven(c) ? thread_create(bpf_get_current_task_btf()) : 0;
	if (!t)
		return;
	t->proof.accepted = c->server.socket;
	t->proof.service = c->service;
	t->proof.asked = t->proof.alone = 0;
}

/* A service listens. */
INLINE void proof_listens(struct conn *c, u64 socket)
{
	struct service_state *svc = service_of(c->service);
	if (svc)
		svc->listener = socket;
}

/* It sends one: how will it wait for the answer? */
__noinline int proof_asks(struct conn *c, u64 socket)
{
	if (!c)
		return 0;
	struct service_state *svc = service_of(c->service);
	struct thread_state *t = thread_find();
	u64 now = bpf_ktime_get_ns();
	if (t)
		t->proof.asked = socket;
	if (!svc || now - svc->asked_at < PROOF_PAUSE)
		return 0;
	svc->asked_at = now;
	if (svc->asks < PROOF_ASKS) {
		svc->asks++;
		tell_decision(TARE_UNPROVEN, c->service, 0);
	} else if (!svc->linked && /* by tasks */
		   !__sync_val_compare_and_swap(&svc->refused, 0, TARE_UNLINKED_UNPROVEN)) {
		tell_decision(TARE_REFUSED, c->service, TARE_UNLINKED_UNPROVEN);
	}
	return 0;
}

/* It answers. */
INLINE void proof_ends(struct conn *c)
{
	struct thread_state *t = thread_find();
	if (t && t->proof.accepted == c->server.socket)
		t->proof.accepted = 0;
}

/* The file is another connection's, or a listener's. */
INLINE bool another_connection(struct file *f, struct sock *sk)
{
	if ((BPF_CORE_READ(f, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return false;
	struct socket *socket = BPF_CORE_READ(f, private_data);
	struct sock *other = BPF_CORE_READ(socket, sk);
	u16 family = BPF_CORE_READ(other, __sk_common.skc_family);
	if (other == sk)
		return false;
	if (family != AF_UNIX)
		return family == AF_INET || family == AF_INET6;
	if (BPF_CORE_READ(other, sk_type) != SOCK_STREAM ||
	    !bpf_core_type_exists(struct unix_sock)) /* of a module */
		return false;
	struct unix_sock *u = (void *)other, *peer = (void *)BPF_CORE_READ(u, peer);
	return BPF_CORE_READ(u, addr) || BPF_CORE_READ(peer, addr); /* a pair has no name */
}

/* What is polled are no connections but this. */
INLINE bool polls_alone(struct poll_wqueues *p, struct sock *sk)
{
	u32 n = BPF_CORE_READ(p, inline_index);
	struct poll_table_entry *e =
	    (void *)p + bpf_core_field_offset(struct poll_wqueues, inline_entries);
	if (BPF_CORE_READ(p, table) || n > POLLED)
		return false;
	for (u32 i = 0; i < POLLED; i++) {
		if (i < n && another_connection(BPF_CORE_READ(e, filp), sk))
			return false;
		e = (void *)e + bpf_core_type_size(struct poll_table_entry);
	}
	return true;
}

enum sleep {
	SLEEP_OTHER, /* not for this socket */
	SLEEP_ALONE, /* until something comes on it, and on no other connection */
	SLEEP_MANY,
};

/* For what a thread that goes to sleep waits, as far as it is a socket. */
static __noinline enum sleep sleeps_for(struct task_struct *task, u64 socket)
{
	struct sock *sk = (void *)socket;
	if (!sk || BPF_CORE_READ(sk, sk_write_pending)) /* it may wait for room to send */
		return SLEEP_OTHER;
	struct socket_wq *wq = BPF_CORE_READ(sk, sk_wq);
	struct list_head *head = &wq->wait.head, *at = BPF_CORE_READ(head, next);
	for (u32 i = 0; i < WAITERS && at != head; i++) {
		struct wait_queue_entry *e =
		    (void *)at - bpf_core_field_offset(struct wait_queue_entry, entry);
		void *private = BPF_CORE_READ(e, private);
		struct poll_wqueues *p = private;
		if (private == task)
			return SLEEP_ALONE;
		if (BPF_CORE_READ(p, polling_task) == task)
			return polls_alone(p, sk) ? SLEEP_ALONE : SLEEP_MANY;
		at = BPF_CORE_READ(at, next);
	}
	return SLEEP_OTHER;
}

/* A coroutine sends a request, in a service without proof. */
INLINE void proof_asks_on(const struct stack *stack)
{
	struct thread_state *t = thread_create(bpf_get_current_task_btf());
	if (t)
		t->left = *stack;
}

/* The thread was on a stack when it sent something for a request: is it elsewhere now? */
INLINE void proof_leaves(struct task_struct *task, struct thread_state *t)
{
	u64 sp = stack_pointer(task);
	if (!t || !t->left.end || (sp >= t->left.start && sp < t->left.end))
		return;
	struct worker w = {.id = t->left.end, .tgid = task->tgid, .kind = WORKER_STACK};
	struct guard *g = guard_of(&w);
	if (g && g->complete > 0)
		g->left = 1;
	t->left.end = 0;
}

/* A thread goes to sleep. */
INLINE void proof_sleeps(struct task_struct *task)
{
	struct thread_state *t = thread_of(task);
	proof_leaves(task, t);
	if (!t || !(t->proof.accepted || (t->inherited && t->proof.asked)))
		return;
	struct service_state *svc = service_of(t->inherited ? t->service : t->proof.service);
	struct worker w = {.id = task->pid};
	struct guard *g = guard_of(&w);
	if (!svc)
		return;
	if (g && g->complete > 0 &&
	    (sleeps_for(task, t->proof.accepted) == SLEEP_MANY ||
	     sleeps_for(task, svc->listener))) {
		g->evidence |= EVIDENCE_LOOP;
		t->proof.accepted = 0;
	} else if (t->proof.asked && !t->proof.alone &&
		   sleeps_for(task, t->proof.asked) == SLEEP_ALONE) {
		t->proof.alone = 1; /* once for a request, or for a thread that one started */
		if (svc->proofs < PROOFS)
			svc->proofs++;
	}
}

#endif
