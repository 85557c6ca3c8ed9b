/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Retroactive sampling (Zhang, Xie, Anand, Vigfusson, Mace: "The Benefit of Hindsight", NSDI 2023): records of requests
 * that are not sampled lie in memory that is overwritten. When a request fails or is slow, a trigger names its trace; the
 * agents that trace the others of its requests learn of it, and each takes the trace's records out of the memory. What
 * nobody asks for costs no export, and no building of spans.
 *
 *	segments   of one pool for all CPUs, so that the memory reaches back equally far on all. A CPU fills one,
 *	           then takes the next one of the pool
 *	records    those of event.h, each behind a stamp: where it lies, counted from the first segment on, and its
 *	           length. The room is taken first, and the stamp written last. So a reader finds records from any
 *	           segment's beginning on, none that is not whole, and none of an earlier lap
 *
 * The memory is mapped by the agent: agent/kernel/retro.go.
 */
#ifndef TARE_RETRO_H
#define TARE_RETRO_H

#define RETRO_SLACK 512 /* a record that is written at any offset, as verifiers see it */

struct retro_segment {
	u64 words[(TARE_RETRO_SEGMENT + RETRO_SLACK) / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg_retro */
	__type(key, u32);
	__type(value, struct retro_segment);
} retro_memory SEC(".maps");

/* Of a CPU, from index 1 on: the number of its segment, and in the low bits how much of that is used. Of index 0: the next number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* 1 + CPUs */
	__type(key, u32);
	__type(value, struct retro_place);
} retro_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* SERVICES */
	__type(key, u32);
	__type(value, struct retro_rule);
} retro_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} retro_triggers SEC(".maps");

/* Of this memory alone: bytes that somebody sends never look like a stamp. */
const volatile u64 cfg_retro_secret = 0;

/* Stores are seen in another order than they were made: not on x86-64. */
const volatile bool cfg_retro_reorders = false;

struct retro_room {
	u64 *stamp;
	u64 value;
};

/* Room for a record of at most size bytes, of which it takes so many. 0: there is none. */
INLINE void *retro_reserve(struct retro_room *r, u32 size)
{
	u32 pool = 0, cpu = bpf_get_smp_processor_id() + 1;
	struct retro_place *next = bpf_map_lookup_elem(&retro_places, &pool);
	struct retro_place *here = bpf_map_lookup_elem(&retro_places, &cpu);
	if (!next || !here) {
		count_each(TARE_C_RETRO_FULL);
		return 0;
	}
	size = (size + sizeof(u64) + 7) & ~7;
	u64 at = __sync_fetch_and_add(&here->at, size);
	u32 used = at & TARE_RETRO_USED;
	at >>= TARE_RETRO_SHIFT;
	/* A CPU that has written little gives its segment up long before another one takes that memory anew. */
	if (!used || used + size > TARE_RETRO_SEGMENT || next->at - at >= cfg_retro / 2) {
		at = __sync_fetch_and_add(&next->at, 1);
		used = 0;
		__sync_lock_test_and_set(&here->at, at << TARE_RETRO_SHIFT | size);
	}
	u32 n = at & (cfg_retro - 1);
	struct retro_segment *s = bpf_map_lookup_elem(&retro_memory, &n);
	if (!s) {
		count_each(TARE_C_RETRO_FULL);
		return 0;
	}
	u64 offset = used;
	OPAQUE(offset);
	offset &= TARE_RETRO_SEGMENT - 8;
	r->stamp = (void *)s + offset;
	r->value =
	    ((at * TARE_RETRO_SEGMENT + offset) << TARE_RETRO_WORDS | size / 8) ^ cfg_retro_secret;
	count_each(TARE_C_RETRO_RECORDS);
	return r->stamp + 1;
}

INLINE void retro_commit(const struct retro_room *r)
{
	asm volatile("" ::: "memory");
	if (cfg_retro_reorders)
		__sync_lock_test_and_set(r->stamp, r->value);
	else
		*(volatile u64 *)r->stamp = r->value;
}

/*
 * Makes a record of a span and fills it, where the span's request has its records. size: of the ring, a constant; taken: of
 * the memory.
 */
#define RECORD_TAKING(span, e, size, taken, fill)                                                  \
	do {                                                                                       \
		if (is_retro(span)) {                                                              \
			struct retro_room _room;                                                   \
			e = retro_reserve(&_room, taken);                                          \
			if (e) {                                                                   \
				fill;                                                              \
				retro_commit(&_room);                                              \
			}                                                                          \
		} else {                                                                           \
			e = record_reserve(size);                                                  \
			if (e) {                                                                   \
				fill;                                                              \
				bpf_ringbuf_submit(e, ring_flags());                               \
			}                                                                          \
		}                                                                                  \
	} while (0)

#define RECORD(span, e, size, fill) RECORD_TAKING(span, e, size, size, fill)

/* ---- triggers ---- */

/* A request fails, or is slow: whoever has records of its trace is to keep them. */
__noinline int trigger(const struct conn *c, const struct context *ctx, u64 began, u32 reason)
{
	if (!c || !ctx)
		return 0;
	u32 service = c->service;
	struct retro_rule *rule = bpf_map_lookup_elem(&retro_rules, &service);
	if (!rule)
		return 0;
	__sync_fetch_and_add(&rule->triggered, 1);
	/* Which traces are kept where too many trigger follows from their ids: so all choose the same. */
	if (ctx->hi < rule->floor) {
		__sync_fetch_and_add(&rule->limited, 1);
		return 0;
	}
	struct retro_trigger t = {.reason = reason, .service = service, .began = began};
	t.trace_hi = ctx->hi;
	t.trace_lo = ctx->lo;
	t.span_id = ctx->span;
	t.ts = bpf_ktime_get_ns();
	t.role = c->flags & C_SERVER ? TARE_SERVER : TARE_CLIENT;
	if (bpf_ringbuf_output(&retro_triggers, &t, sizeof(t), BPF_RB_NO_WAKEUP))
		count_each(TARE_C_TRIGGERS_FULL);
	return 0;
}

INLINE void retro_begins(struct server_exchange *x, u64 now, u32 flags)
{
	if (!cfg_retro)
		return;
	x->began = now;
	x->entry = flags & (TARE_F_ROOT | TARE_F_ADOPTED);
}

/* The beginning of a response of HTTP/1, redis or memcached tells of an error. */
__noinline int retro_is_error(const struct bytes *b)
{
	u8 head[HEAD] = {};
	if (!b || !read_head(head, b))
		return false;
	bool redis = payload_is_redis_error(head) && head[1] >= 'A' && head[1] <= 'Z';
	return payload_status_class(head) == 5 || redis || payload_is_memcached_error(head);
}

/* The response to a request of an accepted connection begins, or is over. */
__noinline int retro_answered(const struct conn *c, const struct server_exchange *x,
			      const struct bytes *b)
{
	if (!c || !x || !is_retro(x->ctx.span))
		return 0;
	u32 service = c->service;
	struct retro_rule *rule = bpf_map_lookup_elem(&retro_rules, &service);
	if (b && cfg_payload && retro_is_error(b))
		trigger(c, &x->ctx, x->began, TARE_RETRO_ERROR);
	else if (rule && rule->slow && x->entry && bpf_ktime_get_ns() - x->began >= rule->slow)
		trigger(c, &x->ctx, x->began, TARE_RETRO_SLOW);
	return 0;
}

/* It will have none. */
INLINE void retro_unanswered(const struct conn *c, const struct context *ctx, u64 began, u32 error)
{
	if (is_retro(ctx->span))
		trigger(c, ctx, began, error ? TARE_RETRO_RESET : TARE_RETRO_NO_RESPONSE);
}

#endif
