/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Workers: who works for which request within a service. Here, and nowhere else, the mode of
 * linking chooses how it is known:
 *
 *	thread, auto  set by each receive of a request, cleared when its response begins; auto only
 *		      while the guard has no evidence. A thread that a request starts inherits it
 *	loop	      set by each receive on any traced connection (a request, or the response to what
 *		      a request caused), and when such a connection fails; taken by the first connect
 *		      or send that follows; void if the thread may have waited for events in between,
 *		      since only the next receive says what it works for then
 *	queue	      found among the waiting requests by what is sent: queue.bpf.h
 *	goroutine     read from the memory of a program in Go: golang.bpf.h
 *	task	      read from the memory of Java and Python: task.bpf.h; what runs no task, as auto
 *	none	      not known
 *
 * Where auto and task know threads only, a coroutine with a stack of its own works as one: stack.bpf.h.
 *
 * One file, since a receive, a send, a response and the end of each mode stand beside those of the
 * others: what is told of one mode has to hold in all. What a mode reads is in a file of its own; what a
 * thread holds, for those of threads and loops, in thread.bpf.h.
 */
#ifndef TARE_WORKER_H
#define TARE_WORKER_H

/* ---- what is not linked ---- */

/*
 * Something was sent that was not linked. It counts if a request of the service is in flight that
 * may have caused it: that request says so when it is answered.
 */
INLINE void service_not_linked(u16 service, enum unlinked why)
{
	struct service_state *svc = service_of(service);
	if (!svc || !(service_busy(svc) || serves_unseen(svc)))
		return;
	struct counters *n = counters_here();
	u32 i = why;
	OPAQUE(i);
	if (n)
		n->unlinked[i & (UNLINKED_ROOM - 1)]++;
	svc->reason = why;
	__sync_fetch_and_add(&svc->unlinked, 1);
}

INLINE void not_linked(struct conn *c, enum unlinked why)
{
	service_not_linked(c->service, why);
}

/* Why nothing that this service sends is linked; 0 if that is not so. */
INLINE enum unlinked service_unlinked(struct conn *c)
{
	if (c->linking == TARE_LINK_NONE)
		return TARE_UNLINKED_RUNTIME;
	if (!guarded(c))
		return 0;
	struct service_state *svc = service_of(c->service);
	return svc ? svc->refused : 0;
}

/* Why a service's own call is not linked. */
#define OWN_REASONS                                                                                \
	(1u << TARE_UNLINKED_NO_REQUEST | 1u << TARE_UNLINKED_STALE |                              \
	 1u << TARE_UNLINKED_NO_MATCH | 1u << TARE_UNLINKED_TASK)

/*
 * Nothing is known to have caused what is sent. If no sampled request of the service can have, it is the service's own
 * call, and the root of a trace. Returns why it is not linked, or 0 if it is such a call; a->flags tells if it is sampled.
 */
__noinline int own_call(struct conn *c, int why, struct start *a)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	if (!svc || !a || !has_own_calls(c) || service_owes(svc))
		return why;
	if (!(OWN_REASONS >> (why & 31) & 1) || sends_for_unseen(svc))
		return why;
	if (c->linking == TARE_LINK_QUEUE && traced_from())
		return 0; /* perhaps a second one of a request that is not sampled and waits no longer */
	if (c->flags & C_HTTP && peek(&a->b) != PAYLOAD_HTTP_REQUEST)
		return 0; /* no request: the protocol was switched */
	if (!c->client.own || !in_turn(bpf_ktime_get_ns()))
		return 0;
	a->threshold = sampling_threshold;
	a->retro = cfg_retro && (c->client.own & RANDOM_MASK) < a->threshold;
	a->ctx.lo = bpf_cpu_to_be64(c->client.own);
	a->ctx.hi = random_trace(a->ctx.lo, a->retro);
	a->ctx.span = 0;
	a->flags = TARE_F_ROOT;
	count(a->retro ? TARE_C_ROOTS_RETRO : TARE_C_OWN_CALLS);
	return 0;
}

/* None of its sends is linked, and it promises no tags. */
INLINE bool service_silent(struct conn *c)
{
	return service_unlinked(c) && !header_links(c);
}

/* ---- the modes ---- */

/* A thread, or who runs on the stack on which it is. Returns 0, or enum unlinked. */
__noinline int works_on(struct worker *w, u32 service)
{
	struct stack s = {};
	if (!w || w->kind != WORKER_THREAD)
		return 0;
	stack_here(&s, service);
	if (s.end == STACK_OWN)
		return 0;
	if (s.end < STACK_KNOWN)
		return TARE_UNLINKED_STACK;
	*w = worker_of_stack(s.end);
	return 0;
}

/* Who works now, at a receive on an accepted connection. Returns 0, or enum unlinked. */
INLINE int works(struct conn *c, struct worker *w)
{
	*w = this_thread();
	if (!guarded(c))
		return 0;
	if (c->linking != TARE_LINK_TASK)
		return works_on(w, c->service);
	if (c->server.x.holder.kind != WORKER_TRANSPORT)
		return task_receives(w) ?: works_on(w, c->service);
	*w = c->server.x.holder;
	return 0;
}

/* Who answers; false: it is not known, nor that it is another than who received the request. */
INLINE bool answers(struct conn *c, struct worker *w)
{
	u32 holder = c->server.x.holder.kind;
	*w = this_thread();
	if (holder == WORKER_STACK)
		return !works_on(w, c->service);
	if (holder == WORKER_TRANSPORT || (holder != WORKER_THREAD && task_receives(w)))
		*w = c->server.x.holder;
	return true;
}

__noinline int queue_received(struct conn *c, u64 socket, struct bytes *b)
{
	struct look look = {};
	if (!c || !b)
		return 0;
	received_bytes(c, b);
	look_at(b, &look);
	if (c->flags & C_WAITING)
		queue_drop(c->server.waiting, socket);
	c->flags |= C_WAITING;
	int why = queue_push(c, socket, &look);
	if (why)
		not_linked(c, why);
	return 0;
}

/*
 * A worker receives a request while the answer to another one, which it received before, goes on: it may be an event loop.
 * From now on, requests of this service end when their response begins.
 */
INLINE void works_apart(struct conn *c, const struct context *held)
{
	struct service_state *svc =
	    held && held->span && in_flight(held) ? service_of(c->service) : 0;
	if (svc && held->span != c->server.x.ctx.span)
		svc->apart = 1;
}

/* Who receives a request under the guard; returns whether it is the thread. */
__noinline int guarded_received(struct conn *c, struct bytes *b)
{
	struct worker w;
	if (!c || !b)
		return 0;
	if (works(c, &w)) {
		guard_end(c, 0);
		thread_clear();
		return 0;
	}
	if (w.kind == WORKER_TOKEN) {
		task_set(&w, &c->server.x.ctx);
		return 0;
	}
	struct thread_state *t = w.kind == WORKER_THREAD ? thread_find() : 0;
	works_apart(c, t ? &t->ctx : bpf_map_lookup_elem(&tasks, &w));
	received_bytes(c, b);
	guard_begin(c, b, &w);
	if (w.kind == WORKER_STACK && stack_unproven(c))
		proof_leaves(bpf_get_current_task_btf(), thread_find());
	if (w.kind != WORKER_THREAD) {
		task_set(&w, &c->server.x.ctx);
		return 0;
	}
	proof_begins(c);
	return 1;
}

/* The same of all modes. */
__noinline int some_worker_received(struct conn *c, u64 socket, struct bytes *b)
{
	if (!c || !b)
		return 0;
	const struct context *ctx = &c->server.x.ctx;
	if (c->linking == TARE_LINK_QUEUE)
		return queue_received(c, socket, b);
	if (c->linking == TARE_LINK_GOROUTINE)
		return go_received(c, true);
	if (by_thread(c) && !guarded_received(c, b))
		return 0;
	if (ctx->span && c->linking != TARE_LINK_NONE)
		thread_set(ctx, socket, c->linking == TARE_LINK_LOOP);
	else
		thread_clear();
	return 0;
}

/* The worker receives a request on an accepted connection: x.ctx, span 0 if it is not sampled. */
INLINE void worker_received(struct conn *c, u64 socket, struct bytes *b)
{
	if (c->linking == TARE_LINK_LOOP && !c->server.x.ctx.span)
		thread_clear();
	else
		some_worker_received(c, socket, b);
}

/* A thread of the service asks how the connection is: it may have taken its request over. */
INLINE void worker_inquires(struct conn *c)
{
	const struct context *ctx = &c->server.x.ctx;
	if (!handover_inquired(c))
		return;
	proof_begins(c);
	if (ctx->span)
		thread_set(ctx, c->server.socket, false);
	else
		thread_clear();
}

/* Who receives more of a request under the guard; returns whether it is the thread that holds it. */
__noinline int guarded_more(struct conn *c, struct bytes *b)
{
	struct worker w;
	if (!c || !b || works(c, &w))
		return 0;
	if (w.kind == WORKER_TOKEN)
		return task_set(&w, &c->server.x.ctx);
	if (!c->server.x.open)
		return w.kind == WORKER_THREAD;
	guard_more(c, b, &w);
	if (!same_worker(&w, &c->server.x.holder))
		return 0;
	if (w.kind != WORKER_THREAD && c->server.x.ctx.span)
		task_set(&w, &c->server.x.ctx);
	return w.kind == WORKER_THREAD;
}

/* More of the request in progress, or bytes that belong to none. */
INLINE void worker_received_more(struct conn *c, struct bytes *b)
{
	const struct context *ctx = &c->server.x.ctx;
	if (c->linking == TARE_LINK_GOROUTINE) {
		if (!c->server.go.goroutine)
			go_received(c, false);
		return;
	}
	bool guards = by_thread(c) && (c->server.x.open || c->linking == TARE_LINK_TASK);
	if (guards && !guarded_more(c, b))
		return;
	if (ctx->span && (by_thread(c) || c->linking == TARE_LINK_LOOP))
		thread_set(ctx, c->server.socket, c->linking == TARE_LINK_LOOP);
	else if (!by_thread(c))
		thread_clear();
}

/* The thread received on a socket that is not traced, or not armed: a loop turned to other work. */
INLINE void worker_turned(void)
{
	struct thread_state *t = thread_held();
	if (!t)
		return;
	t->taken = 0;
	if (t->loop)
		t->ctx.span = 0;
}

/*
 * It received on a socket that is not TCP's: an answer, or a request, that a loop goes on with. What
 * it sends then is of a request that is not known.
 */
INLINE void worker_turned_unseen(void)
{
	struct thread_state *t = thread_held();
	if (!t || !t->loop)
		return;
	t->ctx.span = 0;
	t->taken = TAKEN_UNSEEN;
}

/* HTTP/2 was received: what a loop sends next is of nothing that it has received before. */
INLINE void worker_received_http2(struct conn *c, u32 write_seq)
{
	go_http2_received(c);
	header_received_http2(c);
	if (c->linking == TARE_LINK_LOOP)
		loop_receives_http2(c, write_seq);
}

/* The response to what a request caused is received. */
INLINE void worker_resumed(struct conn *c)
{
	if (c->linking == TARE_LINK_TASK)
		task_answered(c);
	if (c->linking != TARE_LINK_LOOP)
		return;
	if (c->client.x.caller.span)
		thread_set(&c->client.x.caller, 0, true);
	else
		thread_clear();
}

/*
 * The worker closes a connection that a request runs on: it may ask again over another. If the
 * request is sampled and in flight (a response that has begun ended it), that is for this request;
 * if it waits for a response and is not sampled, for none.
 */
INLINE void worker_closes(struct conn *c, u32 copied_seq)
{
	const struct context *caller = &c->client.x.caller;
	if (c->linking != TARE_LINK_LOOP)
		return;
	if (caller->span && in_flight(caller))
		thread_set(caller, 0, true);
	else if (!caller->span &&
		 (c->flags & C_BOUND || (c->flags & C_SENT && c->client.read_seq == copied_seq)))
		worker_turned();
}

__noinline int thread_seems_answered(struct conn *c)
{
	if (!c)
		return 0;
	struct worker w;
	bool known = answers(c, &w);
	if (!c->server.x.answers)
		proof_ends(c);
	handover_answered(c, known ? &w : 0);
	return guard_end(c, known ? &w : 0);
}

/* The response to the request in progress begins, or may have begun. */
INLINE void worker_seems_answered(struct conn *c)
{
	if (by_thread(c))
		thread_seems_answered(c);
}

/* An accepted connection ends. */
INLINE void worker_closed(struct conn *c)
{
	guard_end(c, 0);
	if (c->server.x.answers && by_thread(c))
		guard_over(c);
	header_over(c, 0);
	if (c->server.x.holder.kind != WORKER_TRANSPORT)
		return;
	/* The process closed it before: a later connection's transport may be where this one's was. */
	struct guard *g = guard_of(&c->server.x.holder);
	if (g && g->open <= 0)
		guard_forget(&c->server.x.holder);
}

/* The thread works no more for the sampled request that is answered. */
INLINE void thread_leaves(struct conn *c)
{
	struct thread_state *t = thread_find();
	if (t && t->ctx.span == c->server.x.ctx.span)
		t->ctx.span = 0;
}

/* The response to the request in progress begins, sampled or not. Whoever works for it goes on if x.answers. */
INLINE void worker_answered(struct conn *c, const struct bytes *b)
{
	worker_seems_answered(c);
	header_over(c, b);
	if (c->server.x.ctx.span && !c->server.x.answers)
		thread_leaves(c);
}

/* The response that went on is over. */
INLINE void worker_over(struct conn *c)
{
	if (by_thread(c)) {
		proof_ends(c);
		guard_over(c);
	}
	thread_leaves(c);
}

__noinline int thread_publishes(struct conn *c)
{
	struct worker w = this_thread();
	u32 tgid = bpf_get_current_task_btf()->tgid;
	if (!c || !bpf_map_lookup_elem(&publishers, &tgid) || service_unlinked(c))
		return 0;
	if (c->linking == TARE_LINK_TASK && task_sends(&w))
		return 0;
	struct thread_state *t = w.kind == WORKER_THREAD ? thread_find() : 0;
	struct context *held = t			? &t->ctx
			       : w.kind == WORKER_TOKEN ? bpf_map_lookup_elem(&tokens, &w)
							: bpf_map_lookup_elem(&tasks, &w);
	if (held && held->span == c->server.x.ctx.span)
		publish(held->span);
	return 0;
}

/*
 * The response to a sampled request begins: if the thread works for it, as far as is known, it tells
 * which span of an SDK is current. Elsewhere the span may be another request's.
 */
INLINE void worker_publishes(struct conn *c)
{
	if (by_thread(c))
		thread_publishes(c);
}

/* Connect: with loop linking, the first send comes after other requests' turns. */
INLINE void worker_connects(struct conn *c)
{
	if (worker_calls_itself(c)) {
		c->flags = C_IGNORED;
		return;
	}
	if (c->linking != TARE_LINK_LOOP)
		return;
	c->flags |= C_BOUND;
	c->client.why = loop_take(&c->client.x.caller);
}

/* By a thread or a process that a request started. */
__noinline int inherited_asks(struct thread_state *t, u32 service, struct context *ctx)
{
	struct service_state *svc = t ? service_of(t->service) : 0;
	if (!svc || !ctx)
		return TARE_UNLINKED_CHILD;
	if (t->ctx.span && !in_flight(&t->ctx))
		svc->outlived = 1;
	/* A request that was not sampled may be over. */
	bool over = !t->ctx.span && bpf_ktime_get_ns() - t->started > SHORT;
	if (!over && children_are_joined(svc)) {
		*ctx = t->ctx;
		return 0;
	}
	if (t->service != service)
		service_not_linked(t->service, TARE_UNLINKED_CHILD);
	return TARE_UNLINKED_CHILD;
}

/*
 * A request that the thread has half read may be another's to read on, and the thread works for
 * something else by now: until its service has shown that it does not, where threads have read on
 * for others, or where an event loop watches its socket.
 */
INLINE bool passed_on(struct conn *c, struct thread_state *t, struct service_state *svc)
{
	struct hlist_node *watched = 0;
	if (svc->passes_on || (guarded(c) && !svc->works_half))
		return true;
	struct sock *sk = (void *)t->socket; /* there is one while its request is in flight */
	BPF_CORE_READ_INTO(&watched, sk, sk_socket, file, f_ep, first);
	return watched;
}

/* The thread works for a request: will it wait for the answer to what it sends? Returns 0, or enum unlinked. */
__noinline int waits(struct conn *c, const struct tcp_view *v, const struct service_state *svc)
{
	if (!c || !v || !svc || !guarded(c))
		return 0;
	if (v->watched == WATCHED_ONCE || loop_waits(c, v, svc))
		return TARE_UNLINKED_EPOLL;
	if (!unproven(c))
		return 0;
	if (v->sock)
		proof_asks(c, v->sock);
	return TARE_UNLINKED_UNPROVEN;
}

/* The stack on which something is sent; 0: a thread's own, as for look-ups of names. */
INLINE const struct stack *sends_on(struct conn *c, const struct tcp_view *v)
{
	struct start *a = v->sock && guarded(c) ? start_of(HOOK_SENDS) : 0;
	if (!a)
		return 0;
	stack_here(&a->stack, c->service);
	return a->stack.end != STACK_OWN ? &a->stack : 0;
}

/* By a task, or on a stack. */
INLINE int task_asks(struct conn *c, const struct tcp_view *v, const struct worker *w,
		     const struct guard *g, const struct stack *stack,
		     const struct service_state *svc, struct context *ctx)
{
	struct context *held = bpf_map_lookup_elem(&tasks, w);
	bool sampled = held && in_flight(held);
	if (!sampled && (!g || g->open <= 0))
		return TARE_UNLINKED_NO_REQUEST;
	if (w->kind == WORKER_VIRTUAL && loop_waits(c, v, svc))
		return TARE_UNLINKED_EPOLL;
	if (stack && w->kind == WORKER_STACK && stack_unproven(c)) {
		proof_asks_on(stack);
		proof_asks(c, v->sock);
		return TARE_UNLINKED_UNPROVEN;
	}
	if (sampled)
		*ctx = *held;
	return 0;
}

/*
 * Who sends on a stack that is not its thread's: a coroutine that has received something there; else the
 * thread does, as from a fiber of a request's.
 */
INLINE void coroutine_sends(const struct stack *stack, struct worker *w)
{
	if (!stack || w->kind != WORKER_THREAD || stack->end < STACK_KNOWN)
		return;
	struct worker on = worker_of_stack(stack->end);
	if (guard_of(&on))
		*w = on;
}

/* It is not told apart on which stack this is sent. A service of which no coroutine ever is, is refused. */
INLINE int stack_unknown(struct conn *c, struct service_state *svc)
{
	if (svc->stacks < PROOFS && svc->shared++ >= STACK_CALLS &&
	    !__sync_val_compare_and_swap(&svc->refused, 0, TARE_UNLINKED_STACK))
		tell_decision(TARE_REFUSED, c->service, TARE_UNLINKED_STACK);
	return TARE_UNLINKED_STACK;
}

INLINE int thread_asks(struct conn *c, const struct tcp_view *v, struct guard *g,
		       const struct stack *stack, struct service_state *svc, struct context *ctx)
{
	struct thread_state *t = thread_find();
	if (t && t->inherited && (!g || g->open <= 0))
		return (is_helper(t) ? 0 : waits(c, v, svc)) ?: inherited_asks(t, c->service, ctx);
	bool sampled = t && t->ctx.span && in_flight(&t->ctx);
	if (!sampled && (!g || g->open <= 0)) {
		if (stack && stack->end < STACK_KNOWN)
			return stack_unknown(c, svc);
		return t && t->ctx.span ? TARE_UNLINKED_STALE : TARE_UNLINKED_NO_REQUEST;
	}
	int why = waits(c, v, svc);
	if (why)
		return why;
	bool half = g && g->open > 0 && g->complete <= 0;
	if (half)
		g->asked = 1;
	if (!sampled)
		return 0;
	if (half && passed_on(c, t, svc))
		return TARE_UNLINKED_HANDED_OVER;
	*ctx = t->ctx;
	return 0;
}

/* The first link of a service is told. */
INLINE int linked_first(struct conn *c, struct service_state *svc, const struct worker *w,
			const struct context *ctx)
{
	if (ctx->span && guarded(c) && !svc->linked) {
		svc->linked = 1;
		tell_decision(TARE_LINKS, c->service, w->kind);
	}
	return 0;
}

/* By a thread or by a task, under the guard. */
__noinline int guarded_asks(struct conn *c, const struct tcp_view *v, u32 fresh,
			    struct context *ctx)
{
	if (!c || !v || !ctx)
		return 0;
	struct service_state *svc = service_of(c->service);
	struct worker w = this_thread();
	if (!svc)
		return TARE_UNLINKED_RUNTIME;
	if (guarded(c) && svc->refused)
		return svc->refused;
	if (c->linking == TARE_LINK_TASK && (svc->linked || !unproven(c)) &&
	    nothing_sampled(c, svc))
		return 0;
	int why = c->linking == TARE_LINK_TASK ? task_sends(&w) : 0;
	if (why)
		return why;
	if (w.kind == WORKER_TOKEN) {
		why = shim_asks(c, &w, fresh, ctx);
		return why ?: linked_first(c, svc, &w, ctx);
	}
	const struct stack *stack = sends_on(c, v);
	coroutine_sends(stack, &w);
	if (v->watched == WATCHED_NOW && w.kind <= WORKER_VIRTUAL)
		port_watch(c, svc);
	struct guard *g = bpf_map_lookup_elem(&guards, &w);
	if (g && g->open > 1 && g->complete <= 0)
		g->evidence |= EVIDENCE_OVERLAP;
	if (guarded(c) && g && g->evidence) {
		why = guard_reason(g->evidence);
		if (!__sync_val_compare_and_swap(&svc->refused, 0, why))
			tell_decision(TARE_REFUSED, c->service, why);
		return why;
	}
	if (w.kind != WORKER_THREAD)
		why = task_asks(c, v, &w, g, stack, svc, ctx);
	else
		why = thread_asks(c, v, g, stack, svc, ctx);
	return why ?: linked_first(c, svc, &w, ctx);
}

/* The same of all modes. */
__noinline int some_worker_asks(struct conn *c, const struct tcp_view *v, const struct bytes *b,
				u32 fresh, struct context *ctx)
{
	if (!c || !v || !b || !ctx)
		return 0;
	ctx->span = 0;
	if (c->flags & C_BOUND)
		return bound_take(c, ctx);
	switch (c->linking) {
	case TARE_LINK_NONE:
		return TARE_UNLINKED_RUNTIME;
	case TARE_LINK_LOOP:
		return loop_take(ctx);
	case TARE_LINK_GOROUTINE:
		return go_asks(c, 0, ctx);
	case TARE_LINK_QUEUE: {
		struct look look = {};
		if (!fresh || !(any_in_flight() || c->client.own))
			return 0;
		look_at(b, &look);
		return queue_take(&look, ctx);
	}
	}
	if (!fresh && !any_in_flight())
		return 0;
	return guarded_asks(c, v, fresh, ctx);
}

/*
 * What is sent on a connected socket: which request caused it? Returns 0 and its context, span 0
 * if it is not sampled; or enum unlinked. Not fresh: it seems to continue the request before, and
 * matters only if the worker works for another one by now.
 */
INLINE int worker_asks(struct conn *c, const struct tcp_view *v, const struct bytes *b, u32 fresh,
		       struct context *ctx)
{
	if (c->linking == TARE_LINK_LOOP && !(c->flags & C_BOUND) && !threads_matter()) {
		ctx->span = 0;
		return 0;
	}
	return some_worker_asks(c, v, b, fresh, ctx);
}

/*
 * The same of who looks a name up. It is no proof of how a service's threads wait: loops wait for
 * names, too.
 */
__noinline int worker_looks_up(struct conn *c, u32 in_epoll, struct context *ctx)
{
	const struct bytes none = {};
	const struct tcp_view v = {.watched = in_epoll ? WATCHED_NOW : WATCHED_NEVER};
	if (!c || !ctx)
		return 0;
	ctx->span = 0;
	if (c->linking == TARE_LINK_QUEUE)
		return TARE_UNLINKED_NO_MATCH;
	if (c->linking == TARE_LINK_LOOP)
		return loop_looks_up(ctx);
	return worker_asks(c, &v, &none, 1, ctx);
}

/* The same of a request over HTTP/2, whose stream others write, too. */
INLINE int worker_asks_stream(struct conn *c, u32 stream, struct context *ctx)
{
	if (!c || !ctx)
		return 0;
	ctx->span = 0;
	switch (c->linking) {
	case TARE_LINK_GOROUTINE:
		return go_asks(c, stream, ctx);
	case TARE_LINK_LOOP: /* nginx has one request at a time on a connection */
		return c->flags & C_BOUND ? bound_take(c, ctx) : loop_take(ctx);
	}
	return service_unlinked(c) ?: TARE_UNLINKED_HTTP2;
}

/* The send that follows may carry a tag; only worker_asks knows. */
INLINE bool worker_may_ask(struct conn *c)
{
	if (!(any_in_flight() || (has_own_calls(c) && traced_from() <= RANDOM_MASK)) ||
	    service_silent(c))
		return false;
	if (c->flags & C_BOUND)
		return c->client.x.caller.span != 0;
	return true;
}

#endif
