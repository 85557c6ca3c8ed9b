/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that one thread receives and another works for. Puma's reactor reads requests of many
 * connections and queues them for a pool. Nothing says which thread of the pool takes which one, but
 * what such a thread does first: it asks whether the client is still there, by TCP_INFO of the
 * request's connection, and then runs the application, and answers. So a request goes through
 *
 *	            a thread inquires: TCP_INFO               by the inquirer: a handover
 *	received ─────────────────────────────▶ inquired ──────────────────────────────▶ answered
 *	                                            │         by another: the service is misled
 *	                                            ▼ where it is believed
 *	                                        taken over: the inquirer holds it, as if it had received it
 *
 * Others ask for TCP_INFO, too: to watch connections, or to balance load. So an inquiry is believed of
 *
 *	a service  that has had HANDOVERS requests answered by who inquired first and had not received
 *		   them; and never again once one was answered by another: such a service is misled
 *	a thread   that has answered a request which it had inquired about, received by whom it may be;
 *		   or that the receiver of this request has started for it. What watches answers nothing
 *
 * Only a request that was read whole is taken over, and only its first inquirer takes it. The guard
 * then has it as the inquirer's, with what it sees as evidence of that thread: two at once are overlap.
 * The receiver is one that hands over. Some hooks run without the socket's lock; but who works for a
 * request is past its receipt, and before its answer.
 */
#ifndef TARE_HANDOVER_H
#define TARE_HANDOVER_H

#define HANDOVERS 8

/* The thread that runs is one of this service. */
INLINE bool of_service(u16 service)
{
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	return svc && svc->index == service;
}

/* A thread's inquiry is believed. */
INLINE bool believed(const struct service_state *svc, const struct worker *w, u64 span)
{
	struct guard *g = guard_of(w);
	struct thread_state *t = thread_find();
	if (svc->misled || svc->handovers < HANDOVERS)
		return false;
	return (g && g->inquires) || (t && t->inherited && span && t->ctx.span == span);
}

/* The current thread inquires about a connection; returns whether it has taken its request over. */
__noinline int handover_inquired(struct conn *c)
{
	if (!c || !(c->flags & C_SERVER))
		return 0;
	struct server_exchange *x = &c->server.x;
	struct worker w = this_thread();
	if (!(c->linking == TARE_LINK_AUTO || c->linking == TARE_LINK_THREAD) ||
	    x->open != OPEN_COMPLETE || x->inquirer || !of_service(c->service))
		return 0;
	struct service_state *svc = service_of(c->service);
	bool takes = svc && !same_worker(&w, &x->holder) && believed(svc, &w, x->ctx.span) &&
		     !on_foreign_stack();
	if (takes) {
		guard_end(c, &w);
		struct guard *g = guard_hold(c, &w);
		if (g)
			guard_read(c, g, 0);
	}
	x->inquirer = w.id;
	return takes;
}

/* A request is answered, by 0: on a stack that is not told apart. */
INLINE void handover_answered(struct conn *c, const struct worker *by)
{
	struct server_exchange *x = &c->server.x;
	struct service_state *svc = x->open && x->inquirer ? service_of(c->service) : 0;
	if (!svc)
		return;
	if (!by || by->kind != WORKER_THREAD || by->id != x->inquirer) {
		svc->misled = 1;
		return;
	}
	struct guard *g = guard_create(by);
	if (g)
		g->inquires = 1;
	if (svc->handovers < HANDOVERS && !same_worker(by, &x->holder))
		svc->handovers++;
}

#endif
