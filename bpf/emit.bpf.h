/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the records of requests hold: tell.bpf.h. */
#ifndef TARE_EMIT_H
#define TARE_EMIT_H

/*
 * How many bytes the client had sent on this connection before the request: what the kernel has
 * counted (RFC 4898: HCThruOctetsAcked, HCThruOctetsReceived), and how far from there the request
 * is. Equal at both ends, without the initial sequence number; connections that were open before
 * the agent are no exception. The connecting side counts its SYN, the accepting side does not. The
 * sequence number there tells the connection from an earlier one between the same ports.
 */
INLINE u64 server_offset(const struct conn *c, const struct tcp_view *v)
{
	return cfg_sequence ? v->bytes_received - (u32)(v->rcv_nxt - c->server.x.begin_seq) : 0;
}

INLINE u64 client_offset(const struct tcp_view *v, s32 skip)
{
	return cfg_sequence ? v->bytes_acked + (u32)(v->write_seq - v->snd_una) - 1 + skip : 0;
}

#define FRAME_HEADER 9

/* A span that begins. */
struct start {
	struct context ctx; /* of the new span */
	struct stack stack; /* of a client: on which it sends, as far as it matters; stack.bpf.h */
	u64 parent;	    /* 0: none */
	u64 ends;	    /* span that ends with this, 0: none */
	u64 now;
	u64 offset;
	u64 threshold; /* TARE_F_ROOT: that the decision was made by; it may change meanwhile */
	u32 sequence;
	u8 head[FRAME_HEADER + 3]; /* TARE_F_HTTP2: what the payload begins with */
	struct bytes b;
	u8 role;
	u8 flags; /* enum start_flags */
	u8 retro; /* of a server, or TARE_F_ROOT: the request is; of what a service sends, ctx.span says so */
};

/*
 * Room for one, which is too large for the stack on Linux 6.1. A hook that receives may be preempted
 * by one that sends.
 */
enum hook { HOOK_RECEIVES, HOOK_SENDS, HOOK_LOOKS_UP };

struct start_room {
	u64 words[sizeof(struct start) / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32); /* enum hook */
	__type(value, struct start_room);
} starts SEC(".maps");

/* The room of a hook that has begun. */
INLINE struct start *start_of(u32 hook)
{
	return (void *)bpf_map_lookup_elem(&starts, &hook);
}

INLINE struct start *start_in(u32 hook)
{
	struct start *a = start_of(hook);
	if (a)
		__builtin_memset(a, 0, sizeof(*a));
	return a;
}

/* A frame's header, and what there is of the frame; returns how many bytes that are. */
INLINE u32 headers_payload(u8 *payload, const u8 *head, const struct bytes *b)
{
	u64 len = AT_MOST(b->len, TARE_PAYLOAD_START - FRAME_HEADER);
	if (!cfg_payload || !b->data || !len ||
	    bpf_probe_read_user(payload + FRAME_HEADER, len, b->data))
		return 0;
	__builtin_memcpy(payload, head, FRAME_HEADER);
	return FRAME_HEADER + len;
}

/* All of a record but its payload. */
INLINE void fill_start(struct start_record *e, const struct conn *c, const struct start *a)
{
	e->ends = a->ends;
	e->threshold = a->threshold;
	e->type = TARE_START;
	e->role = a->role;
	e->flags = a->flags;
	e->service = c->service;
	e->ts = a->now;
	e->span_id = a->ctx.span;
	e->trace_hi = a->ctx.hi;
	e->trace_lo = a->ctx.lo;
	e->parent_id = a->parent;
	u64 id = bpf_get_current_pid_tgid();
	e->tgid = id >> 32;
	e->tid = id;
	e->connection = c->http2.id;
	e->offset = a->offset;
	e->sequence = a->sequence;
	e->transport = c->family == AF_UNIX ? TARE_OVER_UNIX : TARE_OVER_TCP;
	e->bytes = a->b.size;
	e->local_port = c->local_port;
	e->remote_port = c->remote_port;
	e->family = c->family;
	__builtin_memcpy(e->local, c->local, sizeof(e->local));
	__builtin_memcpy(e->remote, c->remote, sizeof(e->remote));
	if (a->flags & TARE_F_BEHIND)
		__builtin_memcpy(e->behind, c->server.behind, sizeof(e->behind));
	e->payload_len = 0;
}

/* Returns what the payload looks like, so that it need not be read again. */
INLINE int write_start(struct start_record *e, const struct conn *c, const struct start *a)
{
	u64 len = AT_MOST(a->b.len, TARE_PAYLOAD_START);
	fill_start(e, c, a);
	if (a->flags & TARE_F_HTTP2) {
		e->payload_len = headers_payload(e->payload, a->head, &a->b);
	} else if (cfg_payload && a->b.data && len &&
		   !bpf_probe_read_user(e->payload, len, a->b.data)) {
		e->payload_len = len;
		return payload_kind(e->payload, len);
	}
	return PAYLOAD_OTHER;
}

/* What a record takes of the memory of retro.bpf.h. */
INLINE u32 size_of_start(const struct start *a)
{
	u64 len = AT_MOST(a->b.len, TARE_PAYLOAD_START - FRAME_HEADER);
	return __builtin_offsetof(struct start_record, payload) + FRAME_HEADER +
	       (cfg_payload && a->b.data ? len : 0);
}

__noinline int emit_start(struct conn *c, struct start *a)
{
	int kind = PAYLOAD_OTHER;
	struct start_record *e;
	if (!c || !a)
		return PAYLOAD_OTHER;
	RECORD_TAKING(a->ctx.span, e, sizeof(*e), size_of_start(a), kind = write_start(e, c, a));
	return kind;
}

/* More bytes of a span. */
struct more {
	u64 span;
	u64 now;
	struct bytes b; /* b.data 0: without its beginning */
	u8 direction;
	u8 flags;		   /* enum data_flags */
	u8 http;		   /* its payload is the beginning of a response of HTTP/1 */
	u8 head[FRAME_HEADER + 1]; /* TARE_D_HEADERS: what the payload begins with */
};

/* All of a record but its payload. */
INLINE void fill_data(struct data_record *e, const struct more *a)
{
	e->type = TARE_DATA;
	e->direction = a->direction;
	e->flags = a->flags;
	e->bytes = a->b.size;
	e->ts = a->now;
	e->span_id = a->span;
}

INLINE void write_data(struct data_record *e, const struct more *a, u64 len)
{
	fill_data(e, a);
	e->payload_len = len && !bpf_probe_read_user(e->payload, len, a->b.data) ? len : 0;
}

INLINE void write_headers(struct data_record *e, const struct more *a)
{
	fill_data(e, a);
	e->payload_len = headers_payload(e->payload, a->head, &a->b);
}

__noinline int emit_data(struct more *a)
{
	if (!a)
		return 0;
	struct data_record *e;
	if (a->flags & TARE_D_HEADERS) {
		RECORD(a->span, e, sizeof(*e), write_headers(e, a));
	} else if (cfg_payload && a->b.data && a->http && a->b.len > TARE_PAYLOAD_DATA) {
		u64 len = AT_MOST(a->b.len, TARE_PAYLOAD_HEAD);
		RECORD_TAKING(a->span, e, sizeof(*e), TARE_DATA_SHORT + len, write_data(e, a, len));
	} else if (cfg_payload && a->b.data && a->b.len) {
		u64 len = AT_MOST(a->b.len, TARE_PAYLOAD_DATA);
		RECORD_TAKING(a->span, e, TARE_DATA_USUAL, TARE_DATA_SHORT + len,
			      write_data(e, a, len));
	} else {
		RECORD(a->span, e, TARE_DATA_SHORT, write_data(e, a, 0));
	}
	return 0;
}

__noinline int emit_end(u64 span, u32 reason, u32 error)
{
	struct end_record *e;
	RECORD(span, e, sizeof(*e), ({
		       e->type = TARE_END;
		       e->reason = reason;
		       e->error = error;
		       e->pad = 0;
		       e->ts = bpf_ktime_get_ns();
		       e->span_id = span;
	       }));
	return 0;
}

#endif
