/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queue linking, for event loops that receive several requests before they send anything for the
 * first (haproxy: all ready sockets are read, then the streams run). Each thread keeps its requests
 * that wait, sampled or not, with three hashes:
 *
 *	line  method and target
 *	tail  method and the target's last segment, which prefixes and rewritten directories leave
 *	head  the first header field, in lower case (haproxy writes names so)
 *
 * A send on a connected socket belongs to the waiting request with the same line, or else with the
 * same tail and head; if several have it, to none.
 *
 *	receive of a request   → waits
 *	send that matches      → linked, waits no more
 *	its response begins    → waits no more (answered without asking anybody)
 */
#ifndef TARE_QUEUE_H
#define TARE_QUEUE_H

#define WAITING	  128	     /* per thread */
#define BLIND	  1000000000 /* ns in which nothing is linked that looks like what gave way */
#define LINE_SPAN 96	     /* bytes of the first line that are compared */
#define HEAD_SPAN 48	     /* bytes of the header fields that are compared */

struct look {
	u64 line, tail, head; /* line 0: not readable */
};

struct waiting {
	u64 socket; /* address of the struct sock, as an identity; 0: free */
	struct look look;
	struct context ctx; /* span 0: not sampled */
};

struct thread_queue {
	u64 blind_until; /* ns */
	u64 gave_way;	 /* bit_of those that had to give way to others */
	u32 next;	 /* the oldest entry, where the next one goes */
	u32 pad;
	struct waiting entry[WAITING];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_queue);
} queues SEC(".maps");

#define FNV_BASIS 14695981039346656037ULL
#define FNV_PRIME 1099511628211ULL

/* 1 if x is 0, else 0. No branch: the verifier would follow each. */
INLINE u64 is_zero(u64 x)
{
	u64 n = -x;
	OPAQUE(n);
	n = (n | x) >> 63;
	OPAQUE(n);
	return n ^ 1;
}

/* FNV-1a, see above. */
__noinline int look_at(const struct bytes *b, struct look *out)
{
	u8 p[LINE_SPAN] = {};
	if (!b || !out)
		return 0;
	u64 len = AT_MOST(b->len, LINE_SPAN);
	out->line = out->tail = out->head = 0;
	if (!cfg_payload || !b->data || !len || bpf_probe_read_user(p, len, b->data))
		return 0;
	u64 line = FNV_BASIS, tail = FNV_BASIS, method = FNV_BASIS, spaces = 0;
	for (u32 i = 0; i < LINE_SPAN; i++) {
		u64 c = p[i];
		spaces += is_zero(c ^ ' ');
		u64 target = (spaces - 2) >> 63, in_method = is_zero(spaces);
		OPAQUE(target);
		line = (line ^ c * target) * FNV_PRIME;
		method = (method ^ c * in_method) * (in_method * (FNV_PRIME - 1) + 1);
		u64 slash = is_zero(c ^ '/') * target; /* the segment begins anew */
		tail = (tail ^ c * target) * (target * (FNV_PRIME - 1) + 1);
		tail = slash * FNV_BASIS + (1 - slash) * tail;
	}
	out->line = line | 1;
	out->tail = tail ^ method;
	u64 size = 0, in_line = 1;
	for (u32 i = 0; i < LINE_SPAN; i++) {
		size += in_line;
		in_line &= 1 - is_zero(p[i] ^ '\n');
	}
	if (in_line || size + HEAD_SPAN > b->len)
		return 0;
	if (bpf_probe_read_user(p, HEAD_SPAN, b->data + size))
		return 0;
	u64 head = FNV_BASIS, within = 1;
	for (u32 i = 0; i < HEAD_SPAN; i++) {
		u64 c = p[i];
		within &= 1 - is_zero(c ^ '\r');
		head = (head ^ (c | 0x20) * within) * FNV_PRIME;
	}
	out->head = head | 1;
	return 0;
}

INLINE u64 bit_of(u64 hash)
{
	return 1ULL << (hash >> 8 & 63);
}

INLINE struct thread_queue *thread_queue(u64 flags)
{
	return bpf_task_storage_get(&queues, bpf_get_current_task_btf(), 0, flags);
}

/* A request waits no longer. Returns whether it did. */
INLINE bool queue_drop(u32 place, u64 socket)
{
	struct thread_queue *q = thread_queue(0);
	if (!q || q->entry[place & (WAITING - 1)].socket != socket)
		return false;
	q->entry[place & (WAITING - 1)].socket = 0;
	return true;
}

/* Returns TARE_UNLINKED_OVERFLOW if a sampled request had to give way. */
__noinline int queue_push(struct conn *c, u64 socket, const struct look *look)
{
	struct thread_queue *q = thread_queue(BPF_LOCAL_STORAGE_GET_F_CREATE);
	int r = 0;
	if (!c || !look)
		return 0;
	if (!q) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	c->server.waiting = q->next;
	struct waiting *w = &q->entry[q->next & (WAITING - 1)];
	if (w->socket) {
		q->gave_way |= bit_of(w->look.line) | bit_of(w->look.tail);
		q->blind_until = bpf_ktime_get_ns() + BLIND;
		r = w->ctx.span ? TARE_UNLINKED_OVERFLOW : 0;
	}
	w->socket = socket;
	w->look = *look;
	w->ctx = c->server.x.ctx;
	q->next++;
	return r;
}

/* A request that looked alike may have given way lately. */
INLINE bool queue_blind(struct thread_queue *q, const struct look *look)
{
	if (!q->gave_way)
		return false;
	if (bpf_ktime_get_ns() > q->blind_until) {
		q->gave_way = 0;
		return false;
	}
	return q->gave_way & (bit_of(look->line) | bit_of(look->tail));
}

/* Finds the waiting request that is sent on; returns 0, or enum unlinked. */
__noinline int queue_take(const struct look *look, struct context *ctx)
{
	struct thread_queue *q = thread_queue(0);
	u64 lines = 0, both = 0, tails = 0, line_at = 0, both_at = 0, tail_at = 0;
	if (!q || !ctx || !look || !look->line)
		return TARE_UNLINKED_NO_MATCH;
	if (queue_blind(q, look))
		return TARE_UNLINKED_OVERFLOW;
	for (u32 i = 0; i < WAITING; i++) {
		struct waiting *w = &q->entry[i];
		u64 here = 1 - is_zero(w->socket);
		u64 head = is_zero(w->look.head ^ look->head) & (look->head & 1);
		u64 line = here & is_zero(w->look.line ^ look->line);
		u64 tail = here & is_zero(w->look.tail ^ look->tail) & head;
		lines += line;
		line_at += line * i;
		both += line & head;
		both_at += (line & head) * i;
		tails += tail;
		tail_at += tail * i;
	}
	u32 at;
	if (lines == 1)
		at = line_at;
	else if (lines && both == 1)
		at = both_at;
	else if (!lines && tails == 1)
		at = tail_at;
	else
		return lines || tails ? TARE_UNLINKED_AMBIGUOUS : TARE_UNLINKED_NO_MATCH;
	struct waiting *w = &q->entry[at & (WAITING - 1)];
	w->socket = 0;
	*ctx = w->ctx;
	return 0;
}

#endif
