/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Workers: who works for which request within a service. Today a worker is a thread; here, and
 * nowhere else, the mode of linking chooses how it is known:
 *
 *	thread, auto  set by each receive of a request, cleared when its response begins; auto only
 *		      while the guard has no evidence. A thread that a request starts inherits it
 *	loop	      set by each receive on any traced connection (a request, or the response to what
 *		      a request caused), and when such a connection fails; taken by the first connect
 *		      or send that follows; void if the thread slept in between, since only the next
 *		      receive says what it works for then
 *	queue	      found among the waiting requests by what is sent: queue.bpf.h
 *	goroutine     read from the memory of a program in Go: golang.bpf.h
 *	none	      not known
 */
#ifndef TARE_WORKER_H
#define TARE_WORKER_H

/* ---- what is not linked ---- */

/*
 * Something was sent that was not linked. It counts if a request of the service is in flight that
 * may have caused it: that request says so when it is answered.
 */
INLINE void not_linked(struct conn *c, enum unlinked why)
{
	struct service_state *svc = service_of(c->service);
	if (!svc || !(svc->in_flight || in_grace()))
		return;
	struct counters *n = counters_here();
	u32 i = why;
	OPAQUE(i);
	if (n)
		n->unlinked[i & (UNLINKED_ROOM - 1)]++;
	svc->reason = why;
	__sync_fetch_and_add(&svc->unlinked, 1);
}

INLINE void tell_decision(u32 type, u16 service, u32 reason)
{
	struct control_record r = {.type = type, .service = service, .reason = reason};
	r.tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_ringbuf_output(&control, &r, sizeof(r), 0);
}

INLINE bool guarded(const struct conn *c)
{
	return c->linking == TARE_LINK_AUTO;
}

INLINE bool by_thread(const struct conn *c)
{
	return c->linking == TARE_LINK_AUTO || c->linking == TARE_LINK_THREAD;
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

/* ---- the thread's context ---- */

INLINE void thread_set(const struct context *ctx, u64 socket, bool loop)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t = thread_create(task);
	if (!t)
		return;
	t->ctx = *ctx;
	t->socket = socket;
	t->nvcsw = task->nvcsw;
	t->loop = loop;
	t->inherited = t->http2 = t->taken = 0;
}

/* The thread's state, if it can matter: what it held is over while no sampled request is in flight. */
INLINE struct thread_state *thread_held(void)
{
	return any_in_flight() || loops_http2 ? thread_find() : 0;
}

/* The thread works for no sampled request. */
INLINE void thread_clear(void)
{
	struct thread_state *t = thread_held();
	if (!t)
		return;
	t->inherited = t->http2 = t->taken = 0;
	if (t->ctx.span)
		t->ctx.span = 0;
}

/* Loop linking: what the thread received last caused this. Returns 0, or enum unlinked. */
INLINE int loop_take(struct context *ctx)
{
	struct thread_state *t = thread_held();
	if (!t)
		return 0;
	if (t->http2)
		return TARE_UNLINKED_HTTP2;
	bool slept = t->nvcsw != bpf_get_current_task_btf()->nvcsw;
	if (!t->ctx.span) /* the same request's, or another's */
		return t->taken && !slept ? TARE_UNLINKED_NO_REQUEST : 0;
	if (!slept)
		*ctx = t->ctx;
	t->ctx.span = 0;
	t->taken = 1;
	return slept ? TARE_UNLINKED_STALE : 0;
}

/* The same of the first send, whose caller was bound at connect. */
INLINE int bound_take(struct conn *c, struct context *ctx)
{
	c->flags &= ~C_BOUND;
	loop_take(ctx); /* what the handshake's messages have set, if any */
	*ctx = c->client.x.caller;
	return c->client.why;
}

/* ---- a thread that a request starts ---- */

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

/* A thread is cloned. */
INLINE void worker_cloned(struct task_struct *parent, struct task_struct *child)
{
	u32 tgid = parent->tgid, thread = parent->pid;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (!svc || (svc->linking != TARE_LINK_AUTO && svc->linking != TARE_LINK_THREAD))
		return;
	struct guard *g = guard_of(thread);
	struct thread_state *from = thread_of(parent);
	bool grandchild = from && from->inherited;
	if (!grandchild && (!g || g->open <= 0))
		return;
	struct thread_state *t = thread_create(child);
	if (!t)
		return;
	t->inherited = 1;
	t->service = svc->index;
	t->started = bpf_ktime_get_ns();
	if (from)
		t->ctx = from->ctx;
}

/* A thread ends. */
INLINE void worker_exited(struct task_struct *task)
{
	u32 thread = task->pid;
	bpf_map_delete_elem(&guards, &thread);
	struct thread_state *t = thread_of(task);
	if (t && t->inherited) {
		struct service_state *svc = service_of(t->service);
		if (svc && (bpf_ktime_get_ns() - t->started < SHORT || in_flight(&t->ctx)))
			__sync_fetch_and_add(&svc->joined, 1);
	}
}

/* ---- the modes ---- */

/* The worker receives a request on an accepted connection: x.ctx, span 0 if it is not sampled. */
__noinline int worker_received(struct conn *c, u64 socket, struct bytes *b)
{
	if (!c || !b)
		return 0;
	const struct context *ctx = &c->server.x.ctx;
	if (c->linking == TARE_LINK_QUEUE) {
		struct look look = {};
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
	if (c->linking == TARE_LINK_GOROUTINE)
		return go_received(c, true);
	if (by_thread(c)) {
		received_bytes(c, b);
		guard_begin(c, b);
	}
	if (ctx->span && c->linking != TARE_LINK_NONE)
		thread_set(ctx, socket, c->linking == TARE_LINK_LOOP);
	else
		thread_clear();
	return 0;
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
	if (by_thread(c) && c->server.x.open)
		guard_more(c, b);
	bool by_another = by_thread(c) && c->server.x.open && c->server.x.holder != thread_id();
	if (ctx->span && !by_another && (by_thread(c) || c->linking == TARE_LINK_LOOP))
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
	t->http2 = t->taken = 0;
	if (t->loop)
		t->ctx.span = 0;
}

/* HTTP/2 was received: a loop's next sends belong to one of its streams. */
INLINE void worker_received_http2(struct conn *c)
{
	go_http2_received(c);
	if (c->linking != TARE_LINK_LOOP)
		return;
	struct thread_state *t = thread_create(bpf_get_current_task_btf());
	if (!t)
		return;
	loops_http2 = true;
	t->http2 = t->loop = 1;
	t->ctx.span = 0;
}

/* The response to what a request caused is received. */
INLINE void worker_resumed(struct conn *c)
{
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

/* The response to the request in progress begins, sampled or not. */
INLINE void worker_answered(struct conn *c)
{
	if (by_thread(c))
		guard_end(c, thread_id());
	if (!c->server.x.ctx.span)
		return;
	struct thread_state *t = thread_find();
	if (t && t->ctx.span == c->server.x.ctx.span)
		t->ctx.span = 0;
}

/*
 * Connections of a thread to itself, as libraries make them to wake themselves up (pika): a thread
 * connects to a port that it listens on. What goes over them is no request, at either end.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port_key); /* a port */
	__type(value, u32);	      /* thread that listens on it */
} own_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port_key); /* both ports of such a connection */
	__type(value, u8);
} waking SEC(".maps");

INLINE struct port_key both_ports(struct conn *c, u16 listening, u16 connecting)
{
	struct port_key k = {.netns = c->netns, .port = (u32)listening << 16 | connecting};
	return k;
}

/* A service begins to listen. */
INLINE void worker_listens(u8 linking, const struct port_key *port)
{
	u32 thread = thread_id();
	if (linking == TARE_LINK_AUTO || linking == TARE_LINK_THREAD)
		bpf_map_update_elem(&own_ports, port, &thread, BPF_ANY);
	else
		bpf_map_delete_elem(&own_ports, port);
}

/* An accepted connection is one of a thread to itself. */
INLINE bool worker_wakes_itself(struct conn *c)
{
	if (!by_thread(c) || !is_loopback(c->family, c->remote))
		return false;
	struct port_key k = both_ports(c, c->local_port, c->remote_port);
	return !bpf_map_delete_elem(&waking, &k);
}

/* The same of one that is opened. */
INLINE bool worker_calls_itself(struct conn *c)
{
	struct port_key k = {.netns = c->netns, .port = c->remote_port};
	if (!by_thread(c) || !is_loopback(c->family, c->remote))
		return false;
	u32 *thread = bpf_map_lookup_elem(&own_ports, &k);
	return thread && *thread == thread_id();
}

/* Notes such a connection, for the end that will accept it. */
INLINE void worker_called_itself(struct conn *c, u16 port)
{
	struct port_key k = both_ports(c, c->remote_port, port);
	u8 yes = 1;
	bpf_map_update_elem(&waking, &k, &yes, BPF_ANY);
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

/* By a thread that a request started. */
INLINE int inherited_asks(struct thread_state *t, struct context *ctx)
{
	struct service_state *svc = service_of(t->service);
	if (!svc)
		return TARE_UNLINKED_CHILD;
	if (t->ctx.span && !in_flight(&t->ctx))
		svc->outlived = 1;
	if (!t->ctx.span && bpf_ktime_get_ns() - t->started > SHORT)
		return TARE_UNLINKED_CHILD; /* of a request that was not sampled, and may be over */
	if (!children_are_joined(svc))
		return TARE_UNLINKED_CHILD;
	*ctx = t->ctx;
	return 0;
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

INLINE int thread_asks(struct conn *c, const struct tcp_view *v, struct context *ctx)
{
	struct service_state *svc = service_of(c->service);
	if (!svc)
		return TARE_UNLINKED_RUNTIME;
	if (guarded(c) && svc->refused)
		return svc->refused;
	struct guard *g = guard_of(thread_id());
	if (g && g->open > 1 && g->complete <= 0)
		g->evidence |= EVIDENCE_OVERLAP;
	if (guarded(c) && g && g->evidence) {
		enum unlinked why = guard_reason(g->evidence);
		if (!__sync_val_compare_and_swap(&svc->refused, 0, why))
			tell_decision(TARE_REFUSED, c->service, why);
		return why;
	}
	struct thread_state *t = thread_find();
	if (t && t->inherited && (!g || g->open <= 0))
		return inherited_asks(t, ctx);
	bool sampled = t && t->ctx.span && in_flight(&t->ctx);
	if (!sampled && (!g || g->open <= 0))
		return t && t->ctx.span ? TARE_UNLINKED_STALE : TARE_UNLINKED_NO_REQUEST;
	if (guarded(c) && v->in_epoll)
		return TARE_UNLINKED_EPOLL;
	bool half = g && g->complete <= 0;
	if (half)
		g->asked = 1;
	if (!sampled)
		return 0;
	if (half && passed_on(c, t, svc))
		return TARE_UNLINKED_HANDED_OVER;
	*ctx = t->ctx;
	if (guarded(c) && !svc->linked) {
		svc->linked = 1;
		tell_decision(TARE_LINKS, c->service, 0);
	}
	return 0;
}

/*
 * What is sent on a connected socket: which request caused it? Returns 0 and its context, span 0
 * if it is not sampled; or enum unlinked. Not fresh: it seems to continue the request before, and
 * matters only if the worker works for another one by now.
 */
__noinline int worker_asks(struct conn *c, const struct tcp_view *v, const struct bytes *b,
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
		if (!fresh || !any_in_flight())
			return 0;
		look_at(b, &look);
		return queue_take(&look, ctx);
	}
	}
	if (!fresh && !any_in_flight())
		return 0;
	return thread_asks(c, v, ctx);
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
	if (!any_in_flight() || service_unlinked(c))
		return false;
	if (c->flags & C_BOUND)
		return c->client.x.caller.span != 0;
	return true;
}

#endif
