/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent's weight, service by service: for a second now and then the hooks on sockets are timed,
 * and requests counted, sampled or not. Otherwise this costs a load and two branches for each run.
 *
 * What is timed is the program at the hook, without what the kernel takes to get there. A reading of
 * the clock is within it; how long that takes is measured by another one, and taken off. In the tier
 * syscall what is received is not timed: the stack has no room for it on Linux 6.1.
 */
#ifndef TARE_WEIGH_H
#define TARE_WEIGH_H

/* Hooks are timed; the agent switches it. */
volatile bool weighing SEC(".data.live");

/* When a hook began, ns; 0: it is not timed. */
INLINE u64 weigh_begins(void)
{
	return weighing ? bpf_ktime_get_ns() : 0;
}

/* The run was for a sampled request. Over HTTP/2 it may have been for a retro one. */
INLINE bool weigh_sampled(const struct conn *c)
{
	if (c->http2.live)
		return true;
	u64 span =
	    c->flags & C_SERVER ? c->server.x.ctx.span ?: c->server.x.responding : c->client.x.span;
	return span && !is_retro(span);
}

/* It ends; it was called for a service's connection, or 0 for another. */
INLINE void weigh_ends(u64 began, const struct conn *c)
{
	if (!began)
		return;
	u64 now = bpf_ktime_get_ns(), later = bpf_ktime_get_ns();
	struct service_state *svc = service_of(c ? c->service : 0);
	s64 took = 2 * now - began - later;
	if (!svc)
		return;
	__sync_fetch_and_add(&svc->weight.ns, took);
	if (c && weigh_sampled(c))
		__sync_fetch_and_add(&svc->weight.sampled_ns, took);
	__sync_fetch_and_add(&svc->weight.runs, 1);
}

/* A request begins at a service. */
INLINE void weigh_request(const struct conn *c)
{
	struct service_state *svc = weighing ? service_of(c->service) : 0;
	if (svc)
		__sync_fetch_and_add(&svc->weight.requests, 1);
}

#endif
