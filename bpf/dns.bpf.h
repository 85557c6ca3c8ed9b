/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Look-ups of names over UDP: a query for port 53 is a client span of the request that caused it,
 * from the datagram that leaves to the answer with its id that comes to the same socket. Whose
 * query it is, is asked as for a request over TCP; what is not linked is counted and has no span. No
 * context goes with it.
 *
 *	connect, sendmsg  of the control group: a process is about to talk to port 53. Rare, and always
 *			  attached; they ask for the next two
 *	egress, ingress   of the control group: all its packets, so that the agent attaches them only
 *			  while traced processes look names up. Egress runs in the thread that sends
 *
 * A query that is sent again on the same socket, unanswered, is part of the span, whoever sends it:
 * loops do that when they have turned to other work. The agent ends spans that stay without an
 * answer; what is remembered of them here gives way to newer ones.
 */
#ifndef TARE_DNS_H
#define TARE_DNS_H

#define DNS_PORT      53
#define DNS_HEADER    12
#define DNS_ANSWER    0x80				    /* in its third byte */
#define DNS_OPCODE    0x78				    /* likewise; 0: a query */
#define DNS_FORGOTTEN (TARE_LOOKUP_SECONDS * 1000000000ULL) /* ns */
#define DNS_TELL      1000000000 /* ns, at least, between requests for the hooks */

#define QUIC_PORT    443
#define QUIC_INITIAL 0xc0	/* of the first byte: a long header, whose type is Initial */
#define QUIC_2	     0x6b3343cf /* RFC 9369, where the types have other numbers */

#define UDP_HEADER 8

struct lookup_key {
	u64 socket; /* its cookie */
	u64 id;	    /* of the query; above its 16 bits, a hash of what is asked */
};

struct lookup {
	u64 span;
	u64 asked; /* ns */
};

/* Queries that wait for an answer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct lookup_key);
	__type(value, struct lookup);
} lookups SEC(".maps");

/* When the agent was last asked for the hooks, ns. */
u64 lookups_told SEC(".data.live");

/* A datagram, and what a query and QUIC begin with. */
struct datagram {
	u32 at;	  /* where its payload begins, from the network header */
	u32 size; /* of the payload */
	u16 from, to;
	u8 head[DNS_HEADER];
};

/* The agent is to attach the hooks, or to keep them. */
INLINE void lookups_wanted(u32 tgid)
{
	u64 now = bpf_ktime_get_ns();
	if (now - lookups_told < DNS_TELL)
		return;
	lookups_told = now;
	control_tell_of(TARE_LOOKS_UP, tgid);
}

/* The traced service that runs. */
INLINE struct service *service_here(u32 *tgid)
{
	*tgid = bpf_get_current_task_btf()->tgid;
	return bpf_map_lookup_elem(&processes, tgid);
}

INLINE bool is_query(const struct datagram *d)
{
	return d->to == DNS_PORT && d->size > DNS_HEADER &&
	       !(d->head[2] & (DNS_ANSWER | DNS_OPCODE)) && d->head[5] | d->head[4];
}

#define QUESTION 48 /* bytes of it that tell it from others */

struct question {
	u8 bytes[QUESTION];
	u32 hash;
	u32 past; /* a bit for each byte behind the end of the name */
};

static long question_step(u64 i, struct question *q)
{
	if (i >= QUESTION)
		return 1;
	u32 byte = q->bytes[i], ended = q->past & 1;
	if (q->past >> 2 & 1)
		return 1;
	q->past = q->past << 1 | ended | !byte;
	q->hash = (q->hash ^ (ended ? byte : byte | 0x20)) * 0x01000193; /* FNV-1 */
	return 0;
}

/*
 * A hash of the question, which an answer repeats: a name, whose letters may change their case, the zero
 * that ends it, and the type. Resolvers choose ids at random: of 64 queries on a socket, each with another
 * question, one of 1,000 would have the id of another.
 */
__noinline int question_hash(struct __sk_buff *skb, const struct datagram *d)
{
	struct question q = {};
	if (!d || d->size <= DNS_HEADER)
		return 0;
	u64 len = AT_MOST(d->size - DNS_HEADER, QUESTION);
	if (!len ||
	    bpf_skb_load_bytes_relative(skb, d->at + DNS_HEADER, q.bytes, len, BPF_HDR_START_NET))
		return 0;
	bpf_loop(QUESTION, question_step, &q, 0);
	return q.hash;
}

INLINE struct lookup_key lookup_key_of(struct __sk_buff *skb, const struct datagram *d)
{
	u32 id = (u32)d->head[0] << 8 | d->head[1];
	struct lookup_key k = {.socket = bpf_get_socket_cookie(skb)};
	k.id = (u64)(u32)question_hash(skb, d) << 16 | id;
	return k;
}

/* It begins a connection of QUIC, version 1 or 2. */
INLINE bool is_quic(const struct datagram *d)
{
	u32 version =
	    (u32)d->head[1] << 24 | (u32)d->head[2] << 16 | (u32)d->head[3] << 8 | d->head[4];
	return d->to == QUIC_PORT &&
	       ((version == 1 && (d->head[0] & 0xf0) == QUIC_INITIAL) ||
		(version == QUIC_2 && (d->head[0] & 0xf0) == (QUIC_INITIAL | 0x10)));
}

/* The span of a look-up begins. False: its answer would not be known. */
INLINE bool lookup_begins(struct conn *c, const struct lookup_key *k, u32 size, struct start *a)
{
	a->parent = a->ctx.span;
	a->ctx.span = random_span(is_retro(a->parent));
	a->flags = TARE_F_UNTAGGED;
	a->role = TARE_CLIENT;
	a->now = bpf_ktime_get_ns();
	a->b.size = size;
	struct lookup l = {.span = a->ctx.span, .asked = a->now};
	if (!bpf_map_update_elem(&lookups, k, &l, BPF_ANY))
		return true;
	count(TARE_C_STORAGE_FULL);
	return false;
}

/*
 * A query is sent. Returns its span, or 0 if it has none: it is not linked, its request is not
 * sampled, or it was sent before.
 */
INLINE struct start *lookup_asked(struct conn *c, const struct lookup_key *k, u32 size,
				  u32 in_epoll)
{
	struct start *a = start_in(HOOK_LOOKS_UP);
	if (!a)
		return 0;
	struct lookup *before = bpf_map_lookup_elem(&lookups, k);
	if (before && bpf_ktime_get_ns() - before->asked < DNS_FORGOTTEN) {
		struct more m = {.span = before->span, .direction = TARE_SENT, .b = {.size = size}};
		m.now = bpf_ktime_get_ns();
		emit_data(&m);
		return 0;
	}
	struct context ctx;
	int why = worker_looks_up(c, in_epoll, &ctx);
	if (!why && ctx.span && !in_flight(&ctx))
		why = TARE_UNLINKED_STALE;
	if (why)
		not_linked(c, why);
	if (why || !ctx.span)
		return 0;
	a->ctx = ctx;
	return lookup_begins(c, k, size, a) ? a : 0;
}

#endif
