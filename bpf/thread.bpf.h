/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread holds: the context that it works for, which its first send takes where it is an event
 * loop, and which a thread that a request starts inherits; and when what loops receive beside TCP is
 * seen. worker.bpf.h says when each is set, taken and void.
 */
#ifndef TARE_THREAD_H
#define TARE_THREAD_H

/* ---- what loops receive beside TCP ---- */

#define TURNS_TELL 1000000000 /* ns, at least, between requests for the hooks */

/* When the agent was last asked for them, ns. */
u64 turns_told SEC(".data.live");

__noinline int turns_wanted(void)
{
	u64 now = bpf_ktime_get_ns();
	u32 epoch = turns_epoch; /* read first: the agent writes it last */
	if (turns == TURNS_UNSEEN)
		turns_missed = epoch;
	if (now - turns_told < TURNS_TELL)
		return 0;
	turns_told = now;
	control_tell_of(TARE_TURNS, bpf_get_current_task_btf()->tgid);
	return 0;
}

/*
 * A process of an event loop talks by UDP, connects to a unix socket, or forks one that may listen
 * there: what it receives so is to be seen, or still. Until it is, nothing that a loop sends is linked.
 */
INLINE void worker_may_turn(const struct service *svc)
{
	if (turns && svc->linking == TARE_LINK_LOOP)
		turns_wanted();
}

/* ---- the thread's context ---- */

/*
 * The thread slept last in a way that nothing but what it waits for ends: for a page that is read from disk,
 * a lock of the kernel, a program that it starts. No wait for events is such. Kernels remember
 * it for the load average (try_to_block_task(), before Linux 6.13 __schedule()).
 */
INLINE bool task_was_held(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, sched_contributes_to_load);
}

INLINE void thread_set(const struct context *ctx, u64 socket, bool loop)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t = thread_create(task);
	if (!t)
		return;
	t->ctx = *ctx;
	t->socket = socket;
	t->nvcsw = task->nvcsw;
	t->held = task_was_held(task);
	t->loop = loop;
	t->epoch = turns_epoch;
	t->inherited = t->taken = 0;
	t->turn = 0;
}

/* What threads hold is over while no sampled request is in flight. */
INLINE bool threads_matter(void)
{
	return any_in_flight() || loops_http2;
}

/* The thread's state, if it can matter. */
INLINE struct thread_state *thread_held(void)
{
	return threads_matter() ? thread_find() : 0;
}

/* The thread works for no sampled request. */
INLINE void thread_clear(void)
{
	struct thread_state *t = thread_held();
	if (!t)
		return;
	t->inherited = t->taken = 0;
	t->turn = 0;
	t->epoch = turns_epoch;
	if (t->ctx.span)
		t->ctx.span = 0;
}

/*
 * An event loop may have waited for events since then: it slept, and not just once and uninterruptibly. A sleep that a
 * signal cuts short leaves what is remembered of the one before.
 */
INLINE bool slept_since(u64 nvcsw, bool held)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 sleeps = task->nvcsw - nvcsw;
	return sleeps && (sleeps > 1 || held || !task_was_held(task));
}

/* The same since ctx was set: it may have moved on. */
INLINE bool thread_slept(const struct thread_state *t)
{
	return slept_since(t->nvcsw, t->held);
}

/*
 * A loop has received something over HTTP/2 that it may work on after it has received more: nginx handles bodies when it
 * has handled all events, so that what it sends until it waits for the next may be for such a request.
 */
INLINE void loop_puts_off(struct thread_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	t->put_off = 1;
	t->off_nvcsw = task->nvcsw;
	t->off_held = task_was_held(task);
}

__noinline int loop_has_put_off(struct thread_state *t)
{
	if (!t)
		return 0;
	if (t->put_off && slept_since(t->off_nvcsw, t->off_held))
		t->put_off = 0;
	return t->put_off;
}

enum taken {
	TAKEN_NOT = 0,
	TAKEN = 1,
	TAKEN_BY_NAME = 2, /* by look-ups of names: further ones have the same cause */
	TAKEN_UNSEEN = 3,  /* what comes next has a cause that is not seen */
};

/*
 * A loop receives over HTTP/2. That a call which receives goes on is not always known (call_goes_on); but what was
 * received before was surely another call's if something was sent since, or received elsewhere, or the thread slept.
 */
INLINE void loop_receives_http2(struct conn *c, u32 write_seq)
{
	static const struct context none;
	struct thread_state *t = thread_create(bpf_get_current_task_btf());
	if (!t)
		return;
	bool apart = t->turn != c->http2.id || t->taken == TAKEN ||
		     c->http2.turn_seq != write_seq || thread_slept(t);
	if (apart && !c->call_at)
		c->http2.turn = 0;
	loops_http2 = true;
	thread_set(&none, 0, true);
	t->taken = TAKEN_UNSEEN;
	t->turn = c->http2.id;
	c->http2.turn_seq = write_seq;
}

/* Whatever a loop has received since ctx was set was seen. */
INLINE bool turns_were_seen(const struct thread_state *t)
{
	u32 epoch = turns_epoch;
	return turns_missed != epoch && t->epoch == (u16)epoch;
}

/* Loop linking: what the thread received last caused this. Returns 0, or enum unlinked. */
INLINE int loop_take(struct context *ctx)
{
	struct thread_state *t = thread_held();
	if (!t)
		return 0;
	if (loop_has_put_off(t))
		return TARE_UNLINKED_HTTP2;
	if (!turns_were_seen(t))
		return TARE_UNLINKED_UNWATCHED;
	bool slept = thread_slept(t);
	if (t->taken == TAKEN_BY_NAME) { /* what needs the name comes when it is known */
		t->ctx.span = 0;
		t->taken = TAKEN_UNSEEN;
	}
	if (t->taken == TAKEN_UNSEEN)
		return slept ? TARE_UNLINKED_STALE : TARE_UNLINKED_NO_REQUEST;
	if (!t->ctx.span) /* the same request's, or another's */
		return t->taken && !slept ? TARE_UNLINKED_NO_REQUEST : 0;
	if (!slept)
		*ctx = t->ctx;
	t->ctx.span = 0;
	t->taken = TAKEN;
	return slept ? TARE_UNLINKED_STALE : 0;
}

/* The same of a look-up of a name. */
INLINE int loop_looks_up(struct context *ctx)
{
	struct thread_state *t = thread_held();
	if (!t)
		return 0;
	if (loop_has_put_off(t))
		return TARE_UNLINKED_HTTP2;
	if (!turns_were_seen(t))
		return TARE_UNLINKED_UNWATCHED;
	bool slept = thread_slept(t);
	if (!t->ctx.span)
		return !t->taken ? 0 : slept ? TARE_UNLINKED_STALE : TARE_UNLINKED_NO_REQUEST;
	if (slept)
		return TARE_UNLINKED_STALE;
	*ctx = t->ctx;
	t->taken = TAKEN_BY_NAME;
	return 0;
}

/* The same of the first send, whose caller was bound at connect. */
INLINE int bound_take(struct conn *c, struct context *ctx)
{
	c->flags &= ~C_BOUND;
	loop_take(ctx); /* what the handshake's messages have set, if any */
	*ctx = c->client.x.caller;
	return c->client.why;
}

/* ---- a thread or a process that a request starts ---- */

/*
 * It works for that request, if the service's threads end with the requests that start them: JOINED
 * of them must have been seen to end before the response or SHORT after they began, and none to
 * send anything after it, as the threads of a pool do. Until then its sends are not linked.
 */
#define JOINED 3
#define SHORT  1000000000 /* ns */

INLINE bool children_are_joined(struct service_state *svc)
{
	return svc->joined >= JOINED && !svc->outlived;
}

/* Whose request the current thread works for when it starts another one, or a process; false: for none. */
INLINE bool starts_for(const struct service *svc, struct thread_state *from, struct context *ctx)
{
	if (svc->linking == TARE_LINK_GOROUTINE)
		return go_starts_for(ctx);
	struct worker w = this_thread();
	struct guard *g = guard_of(&w);
	bool grandchild = from && from->inherited;
	if (!grandchild && (!g || g->open <= 0))
		return false;
	if (from)
		*ctx = from->ctx;
	return true;
}

/* A thread is cloned, or a process forked. */
INLINE void worker_cloned(struct service *svc, struct task_struct *parent,
			  struct task_struct *child)
{
	bool forked = parent->tgid != child->tgid;
	if (!links_threads(svc->linking) && !(forked && svc->linking == TARE_LINK_GOROUTINE))
		return;
	struct context ctx = {};
	struct thread_state *from = thread_of(parent);
	if (!starts_for(svc, from, &ctx))
		return;
	struct thread_state *t = thread_create(child);
	if (!t)
		return;
	t->inherited = forked || is_helper(from) ? INHERITED_PROCESS : INHERITED_THREAD;
	t->service = from && from->inherited ? from->service : svc->index;
	t->started = bpf_ktime_get_ns();
	t->ctx = ctx;
}

/* A thread ends. */
INLINE void worker_exited(struct task_struct *task)
{
	struct worker w = {.id = task->pid};
	guard_forget(&w);
	struct thread_state *t = thread_of(task);
	if (t && t->inherited) {
		struct service_state *svc = service_of(t->service);
		if (svc && (bpf_ktime_get_ns() - t->started < SHORT || in_flight(&t->ctx)))
			__sync_fetch_and_add(&svc->joined, 1);
	}
}

#endif
