/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard of thread linking: are this service's threads what thread linking takes them for, one
 * request at a time, from its last byte to its response? It looks for evidence to the contrary:
 *
 *	overlap      a thread receives something while a request that it has read whole is
 *		     unanswered, or sends a request with two half read
 *	handed over  a request is answered, or read on, by another thread than read it whole
 *	loop         a thread waits for several connections with a request unanswered: proof.bpf.h
 *
 * A request counts as half read only where that is known: HTTP/1, until the end of its header, or
 * of the body that Content-Length announces. Servers of threads read slow requests side by side
 * (Puma's reactor, php -S) and begin to work when one is whole. Others work for what they have half
 * read (Apache's proxy, gunicorn), which is believed of a service once one of its threads has sent a
 * request and then read on, or answered, what it had half read; and no more once another read on.
 *
 * Evidence is kept by thread and refuses the service when such a thread sends a request: a thread
 * that reads and hands over all day, as Puma's reactor, does no harm while it asks nobody. What is
 * refused stays refused until the agent gives the service's index up, some minutes after its last
 * process has ended.
 *
 * All requests are watched, sampled or not: two of a select loop may overlap, one sampled. Besides,
 * what is sent on a socket that is in an epoll set is not linked: a thread that waits for its
 * answer does not register it. What the guard cannot see, proof.bpf.h is for.
 */
#ifndef TARE_GUARD_H
#define TARE_GUARD_H

#define PROOFS 2 /* requests that prove a service: proof.bpf.h */

enum evidence {
	EVIDENCE_OVERLAP = 1,
	EVIDENCE_HANDED_OVER = 2,
	EVIDENCE_LOOP = 4, /* it waited for connections, with a request unanswered: proof.bpf.h */
};

/* Of a worker. Others touch it when they answer. */
struct guard {
	s32 open;     /* requests received and not answered */
	s32 complete; /* those of them that were read whole */
	u32 evidence;
	u16 asked; /* sent a request when it had half read one, and received nothing since */
	u16 inquires; /* a thread: it has answered a request that it had inquired about; handover.bpf.h */
	u32 left; /* a stack: its thread ran elsewhere after it had sent a request; proof.bpf.h */
};

static const struct guard guard_none;

INLINE bool guarded(const struct conn *c)
{
	return c->linking == TARE_LINK_AUTO || c->linking == TARE_LINK_TASK;
}

INLINE bool by_thread(const struct conn *c)
{
	return guarded(c) || c->linking == TARE_LINK_THREAD;
}

/* The same of a service's mode; that of a connection costs the verifier less as it is. */
INLINE bool links_threads(u32 linking)
{
	return linking == TARE_LINK_AUTO || linking == TARE_LINK_TASK ||
	       linking == TARE_LINK_THREAD;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct worker);
	__type(value, struct guard);
} guards SEC(".maps");

INLINE u32 thread_id(void)
{
	return bpf_get_current_task_btf()->pid; /* in sock_ops, too, on Linux 6.1 */
}

INLINE struct worker this_thread(void)
{
	struct worker w = {.id = thread_id()};
	return w;
}

/* Of stacks two ends may be of one: stack.bpf.h. */
INLINE bool same_worker(const struct worker *a, const struct worker *b)
{
	u64 apart = a->id > b->id ? a->id - b->id : b->id - a->id;
	u64 same = a->kind == WORKER_STACK && b->kind == WORKER_STACK ? STACK_TOP : 1;
	return apart < same && a->tgid == b->tgid;
}

/* Linux 6.1 takes keys and values from the stack, not from where an argument points. */
INLINE struct guard *guard_of(const struct worker *w)
{
	struct worker key = *w;
	return bpf_map_lookup_elem(&guards, &key);
}

INLINE void guard_forget(const struct worker *w)
{
	struct worker key = *w;
	bpf_map_delete_elem(&guards, &key);
}

/* A task works for no sampled request. */
INLINE void task_clear(const struct worker *w)
{
	struct worker key = *w;
	bpf_map_delete_elem(&tasks, &key);
}

INLINE struct guard *guard_create(const struct worker *w)
{
	struct guard *g = guard_of(w);
	if (g)
		return g;
	struct worker key = *w;
	bpf_map_update_elem(&guards, &key, &guard_none, BPF_NOEXIST);
	g = guard_of(w);
	if (!g)
		count(TARE_C_STORAGE_FULL);
	return g;
}

INLINE void guard_dec(s32 *n)
{
	if (*n > 0)
		__sync_fetch_and_add(n, -1);
}

/* The thread goes on with what it had half read. */
INLINE void guard_works_on(struct conn *c, struct guard *g)
{
	struct service_state *svc = g->asked ? service_of(c->service) : 0;
	g->asked = 0;
	if (svc && !svc->works_half)
		svc->works_half = 1;
}

/* A worker has answered what it received. */
INLINE void guard_proves(struct conn *c, struct guard *g)
{
	struct service_state *svc = g->left && !g->evidence ? service_of(c->service) : 0;
	if (svc && svc->stacks < PROOFS)
		svc->stacks++;
}

/* A worker that is no thread works for the request no more. */
__noinline int guard_over(struct conn *c)
{
	if (!c || c->server.x.holder.kind == WORKER_THREAD)
		return 0;
	struct worker *holder = &c->server.x.holder;
	struct guard *g = guard_of(holder);
	task_clear(holder);
	if (g && holder->kind != WORKER_TRANSPORT && g->open <= 0 && !g->evidence)
		guard_forget(holder);
	return 0;
}

/*
 * The request in progress is answered by a worker, which goes on working for it if x.answers; by 0: its connection ends.
 */
__noinline int guard_end(struct conn *c, const struct worker *by)
{
	if (!c || !c->server.x.open)
		return 0;
	struct server_exchange *x = &c->server.x;
	u8 was = x->open;
	x->open = 0;
	struct guard *g = guard_of(&x->holder);
	if (!g)
		return 0;
	bool another = by && !same_worker(by, &x->holder);
	if (was == OPEN_HALF && by && !another)
		guard_works_on(c, g);
	guard_dec(&g->open);
	if (was == OPEN_COMPLETE) {
		guard_dec(&g->complete);
		if (another)
			g->evidence |= EVIDENCE_HANDED_OVER;
		else if (by)
			guard_proves(c, g);
	}
	return x->answers ? 0 : guard_over(c);
}

INLINE void guard_read(struct conn *c, struct guard *g, u32 rest)
{
	struct server_exchange *x = &c->server.x;
	if (g->complete > 0)
		g->evidence |= EVIDENCE_OVERLAP;
	x->rest = rest;
	x->open = rest ? OPEN_HALF : OPEN_COMPLETE;
	if (!rest)
		__sync_fetch_and_add(&g->complete, 1);
}

/* A worker holds the request that is received. */
INLINE struct guard *guard_hold(struct conn *c, const struct worker *w)
{
	struct guard *g = guard_create(w);
	if (!g)
		return 0;
	__sync_fetch_and_add(&g->open, 1);
	g->asked = g->left = 0;
	c->server.x.holder = *w;
	c->server.x.inquirer = 0;
	return g;
}

/* A worker receives a request, sampled or not. */
__noinline int guard_begin(struct conn *c, const struct bytes *b, const struct worker *w)
{
	if (!c || !b || !w)
		return 0;
	guard_end(c, 0);
	struct guard *g = guard_hold(c, w);
	if (!g)
		return 0;
	guard_read(c, g, c->flags & C_HTTP ? request_rest(b) : 0);
	return 0;
}

/* A worker receives more of a request. */
__noinline int guard_more(struct conn *c, struct bytes *b, const struct worker *w)
{
	if (!c || !b || !w)
		return 0;
	struct server_exchange *x = &c->server.x;
	struct guard *g = x->open ? guard_of(&x->holder) : 0;
	bool another = !same_worker(w, &x->holder);
	if (!g)
		return 0;
	if (x->open == OPEN_COMPLETE) {
		if (another)
			g->evidence |= EVIDENCE_HANDED_OVER;
		return 0;
	}
	if (another) { /* half read, and read on by another */
		struct service_state *svc = service_of(c->service);
		if (svc)
			svc->passes_on = 1;
		guard_dec(&g->open);
		g = guard_hold(c, w);
		if (!g) {
			x->open = 0;
			return 0;
		}
	}
	guard_works_on(c, g);
	u32 rest = x->rest;
	if (rest == REST_OF_HEADER) {
		received_bytes(c, b);
		rest = header_ends(b) ? 0 : REST_OF_HEADER;
	} else {
		rest = rest > b->size ? rest - b->size : 0;
	}
	guard_read(c, g, rest);
	return 0;
}

INLINE enum unlinked guard_reason(u32 evidence)
{
	if (evidence & EVIDENCE_LOOP)
		return TARE_UNLINKED_LOOP;
	return evidence & EVIDENCE_OVERLAP ? TARE_UNLINKED_OVERLAP : TARE_UNLINKED_HANDED_OVER;
}

#endif
