/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queue linking, for event loops that receive several requests before they send anything for the
 * first (haproxy: all ready sockets are read, then the streams run). Each thread keeps its requests
 * that wait, sampled or not, with a hash of method and target. A send on a connected socket belongs
 * to the oldest waiting request with the same hash. Proxies that rewrite targets come out unlinked.
 *
 *	receive of a request   → waits
 *	send with its hash     → linked, waits no more
 *	its response begins    → waits no more (answered without asking anybody)
 */
#ifndef TARE_QUEUE_H
#define TARE_QUEUE_H

#define WAITING	  32 /* per thread; when it is full, the oldest gives way and comes out unlinked */
#define HASH_SPAN 64 /* bytes of the first line that are compared */

struct waiting {
	u64 socket; /* address of the struct sock, as an identity; 0: free */
	u64 hash;
	struct context ctx; /* span 0: not sampled */
};

struct thread_queue {
	u32 next; /* the oldest entry, where the next one goes */
	u32 pad;
	struct waiting entry[WAITING];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_queue);
} queues SEC(".maps");

/* FNV-1a over method and target: up to the second space. 0: not readable. */
INLINE u64 line_hash(struct bytes b)
{
	u8 p[HASH_SPAN] = {};
	u32 len = b.len < HASH_SPAN ? b.len : HASH_SPAN;
	u64 h = 14695981039346656037ULL;
	u32 spaces = 0;
	asm volatile("%0 &= 127" : "+r"(len)); /* says it to the verifier again */
	if (!cfg_payload || !b.data || !len || bpf_probe_read_user(p, len, b.data))
		return 0;
	for (u32 i = 0; i < HASH_SPAN; i++) { /* no branches: the verifier would follow each */
		u32 space = ((u32)(p[i] ^ ' ') - 1) >> 31;
		spaces += space;
		u32 within = (spaces - 2) >> 31;
		h = (h ^ (p[i] * within)) * 1099511628211ULL;
	}
	return h;
}

INLINE struct thread_queue *thread_queue(u64 flags)
{
	return bpf_task_storage_get(&queues, bpf_get_current_task_btf(), 0, flags);
}

/* A request is no longer waiting. */
static __noinline int queue_drop(struct sock *sk)
{
	struct thread_queue *q = thread_queue(0);
	if (!q)
		return 0;
	for (u32 i = 0; i < WAITING; i++)
		if (q->entry[i].socket == (u64)sk)
			q->entry[i].socket = 0;
	return 0;
}

static __noinline int queue_push(struct sock *sk, u64 hash, const struct context *ctx)
{
	struct thread_queue *q = thread_queue(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!q) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	struct waiting *w = &q->entry[q->next & (WAITING - 1)];
	if (w->socket && w->ctx.span)
		count(TARE_C_LINK_OVERFLOW);
	w->socket = (u64)sk;
	w->hash = hash;
	w->ctx = *ctx;
	q->next++;
	return 0;
}

/* The oldest request that waits for this hash; false if none does or it is not sampled. */
static __noinline int queue_take(u64 hash, struct context *ctx)
{
	struct thread_queue *q = thread_queue(0);
	if (!q || !ctx || !hash)
		return 0;
	for (u32 i = 0; i < WAITING; i++) {
		struct waiting *w = &q->entry[(q->next + i) & (WAITING - 1)];
		if (!w->socket || w->hash != hash)
			continue;
		w->socket = 0;
		*ctx = w->ctx;
		return ctx->span != 0;
	}
	return 0;
}

#endif
