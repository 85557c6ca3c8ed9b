/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Exchanges: one request and its response on one connection. Here: contexts are drawn, sampled
 * requests begin and end, and whether one is still in flight.
 */
#ifndef TARE_EXCHANGE_H
#define TARE_EXCHANGE_H

#define GRACE                                                                                      \
	1000000000 /* ns: how long a request counts that seems answered, see exchange_seems_answered */

#define TRIES 8 /* slots that a request may take */

/* A CPU takes slots in their order, far from where other CPUs are: neighbours share a cache line. */
#define SLOTS_APART 1024

INLINE u64 random64(void)
{
	return (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} dice SEC(".maps");

/*
 * Root decisions and ids: splitmix64 (Steele, Lea, Flood, 2014, "Fast splittable pseudorandom number
 * generators"), in line, from a random beginning on each CPU. Atomic, since a thread may lose its CPU
 * here: no two draw the same.
 */
INLINE u64 draw(void)
{
	u32 zero = 0;
	u64 *state = bpf_map_lookup_elem(&dice, &zero);
	if (!state)
		return random64();
	if (!*state)
		__sync_val_compare_and_swap(state, 0, random64());
	u64 z = __sync_fetch_and_add(state, 0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

INLINE u64 random_id(void)
{
	u64 id = draw();
	return id ? id : 1;
}

/* Of a span. */
INLINE u64 random_span(bool retro)
{
	u64 id = random_id();
	if (!cfg_retro)
		return id;
	return retro ? id | SPAN_RETRO : (id & ~(u64)SPAN_RETRO) ?: 2;
}

/*
 * The first half of a trace's id, for one that begins here. A tag with an offset has no room for that of a retro
 * request: it follows from the other.
 */
INLINE u64 random_trace(u64 lo, bool retro)
{
	return retro ? tag_derived(lo) : random_id();
}

/* The same where it is seldom needed, and the stack has no room. */
__noinline u64 random_id_apart(void)
{
	return random_id();
}

INLINE bool in_flight(const struct context *ctx)
{
	u32 slot = ctx->slot;
	u64 *held = bpf_map_lookup_elem(&requests, &slot);
	return ctx->span && held && *held == ctx->span;
}

/* Some request counts as in flight though it seems answered. */
INLINE bool in_grace(void)
{
	return grace_until && bpf_ktime_get_ns() < grace_until;
}

/* Once it is over, no hook has to look at the clock for it. */
INLINE void grace_ends(void)
{
	u64 until = grace_until;
	if (until && bpf_ktime_get_ns() >= until)
		__sync_val_compare_and_swap(&grace_until, until, 0);
}

INLINE bool any_in_flight(void)
{
	return *(volatile u64 *)&live_requests || in_grace();
}

/* A sampled request of the service is in flight, or counts as that. */
INLINE bool service_busy(const struct service_state *svc)
{
	return svc->in_flight || in_grace();
}

/* The same of one whose response has not begun. */
INLINE bool service_owes(const struct service_state *svc)
{
	return svc->in_flight != svc->answering || in_grace();
}

/* For so long a request that was received before its connection was armed counts as in flight. */
#define UNSEEN 60000000000ULL /* ns */

INLINE struct service_state *unseen_of(const struct conn *c)
{
	return c->flags & C_UNSEEN ? service_of(c->service) : 0;
}

/* The connection is armed while its service may work for a request that nobody saw. */
INLINE void unseen_begins(struct conn *c)
{
	c->flags |= C_UNSEEN;
	struct service_state *svc = unseen_of(c);
	if (!svc)
		return;
	svc->unseen_at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&svc->unseen, 1);
}

/* That request was answered, or will not be. */
INLINE void unseen_ends(struct conn *c)
{
	struct service_state *svc = unseen_of(c);
	if (svc)
		__sync_fetch_and_add(&svc->unseen, -1);
	c->flags &= ~C_UNSEEN;
}

/* The service may work for such a request. */
INLINE bool serves_unseen(const struct service_state *svc)
{
	return svc->unseen && bpf_ktime_get_ns() - svc->unseen_at < UNSEEN;
}

/* The process that sends may do so for a request that it received before its connections were armed. */
INLINE bool sends_for_unseen(const struct service_state *svc)
{
	u32 tgid = bpf_get_current_task_btf()->tgid;
	const struct service *of = bpf_map_lookup_elem(&processes, &tgid);
	return !of || !of->armed || serves_unseen(svc);
}

/*
 * A service's own calls, by its jobs and timers, begin traces. Not known of event loops, which remember no request that is
 * not sampled.
 */
INLINE bool has_own_calls(const struct conn *c)
{
	return c->linking != TARE_LINK_LOOP && c->linking != TARE_LINK_NONE;
}

/*
 * Draws for what is sent next, before it is known what caused it: most of what is not sampled need not be looked at then.
 * Returns whether it is sampled, should nothing have caused it.
 */
INLINE bool own_drawn(struct conn *c)
{
	u64 threshold = traced_from();
	if (!has_own_calls(c))
		return false;
	c->client.own = 0;
	if (threshold > RANDOM_MASK)
		return false;
	u64 low = draw();
	if ((low & RANDOM_MASK) < threshold)
		return false;
	c->client.own = low;
	return true;
}

/* Nothing that is sent now can be sampled: no request of the service is, nor would be a call of its own. */
INLINE bool nothing_sampled(const struct conn *c, const struct service_state *svc)
{
	return !(svc->in_flight | c->client.own) && !in_grace();
}

/* A sampled request begins. 0: too many at once; it is not traced then. */
__noinline int exchange_begin(struct conn *c, struct server_exchange *x, struct context *ctx)
{
	if (!c || !x || !ctx)
		return 0;
	struct counters *n = counters_here();
	u32 first = n ? (u32)n->slots++ + bpf_get_smp_processor_id() * SLOTS_APART : 0;
	for (u32 i = 0; i < TRIES; i++) {
		u32 slot = (first + i * 0x4001) & (SLOTS - 1);
		u64 *held = bpf_map_lookup_elem(&requests, &slot);
		if (held && !__sync_val_compare_and_swap(held, 0, ctx->span)) {
			struct service_state *svc = service_of(c->service);
			ctx->slot = slot;
			__sync_fetch_and_add(&live_requests, 1);
			if (svc) {
				x->unlinked = svc->unlinked;
				__sync_fetch_and_add(&svc->in_flight, 1);
			}
			x->answered = x->tickets = x->answers = 0;
			return 1;
		}
	}
	count(TARE_C_REQUESTS_FULL);
	return 0;
}

/* It waits for its response no longer. */
INLINE void exchange_uncount(struct conn *c, u32 answers)
{
	struct service_state *svc = service_of(c->service);
	__sync_fetch_and_add(&live_requests, -1);
	if (!svc)
		return;
	__sync_fetch_and_add(&svc->in_flight, -1);
	if (answers)
		__sync_fetch_and_add(&svc->answering, -1);
}

/*
 * Whether a worker can be told to go on with a request whose response has begun. Loops turn to others; of queues a request
 * waits no longer.
 */
INLINE bool works_on_answers(const struct conn *c)
{
	return c->linking != TARE_LINK_LOOP && c->linking != TARE_LINK_QUEUE &&
	       c->linking != TARE_LINK_NONE;
}

/*
 * The response begins, and is known to go on: what the worker sends meanwhile is of this request still. What others send
 * may be the service's own: a response can go on for hours.
 */
INLINE void exchange_answers(struct conn *c, struct server_exchange *x, u32 answers)
{
	struct service_state *svc = service_of(c->service);
	x->answers = answers;
	if (svc)
		__sync_fetch_and_add(&svc->answering, 1);
}

/* The response is over, as far as is known, or the connection ends: no context of this request is worth anything now. */
__noinline int exchange_end(struct conn *c, struct server_exchange *x)
{
	if (!c || !x)
		return 0;
	u32 slot = x->ctx.slot;
	u64 *held = bpf_map_lookup_elem(&requests, &slot);
	if (held && __sync_val_compare_and_swap(held, x->ctx.span, 0) == x->ctx.span &&
	    !x->answered)
		exchange_uncount(c, x->answers);
	x->answered = x->tickets = x->answers = 0;
	return 0;
}

/*
 * This may be the response or a TLS session ticket before it. The request is not counted as in
 * flight from here on, but its context stays good until the connection says more.
 */
INLINE void exchange_seems_answered(struct conn *c, u64 now)
{
	struct server_exchange *x = &c->server.x;
	x->tickets--;
	grace_until = now + GRACE;
	if (!x->answered)
		exchange_uncount(c, 0);
	x->answered = 1;
}

/* Notes that a tag begins a request. False: it did before. */
INLINE bool tag_note(u64 span)
{
	u32 slot = (u32)span & (SLOTS - 1);
	u64 *last = bpf_map_lookup_elem(&seen, &slot);
	if (!last || *last == span)
		return false;
	*last = span;
	return true;
}

INLINE bool tag_noted(u64 span)
{
	u32 slot = (u32)span & (SLOTS - 1);
	u64 *last = bpf_map_lookup_elem(&seen, &slot);
	return last && *last == span;
}

#endif
