/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records for the agent. The agent polls; it is woken only when the ring fills up, so that a
 * quiet host does not wake it at all.
 */
#ifndef TARE_EMIT_H
#define TARE_EMIT_H

/* The beginning of a message in user memory. */
struct bytes {
	const void *data;
	u32 len;
};

INLINE u64 ring_flags(void)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= cfg_wakeup_bytes
		   ? BPF_RB_FORCE_WAKEUP
		   : BPF_RB_NO_WAKEUP;
}

INLINE void copy_addresses(struct start_record *e, struct sock *sk)
{
	struct sock_common *c = &sk->__sk_common;
	e->local_port = c->skc_num;
	e->remote_port = bpf_ntohs(c->skc_dport);
	e->family = c->skc_family;
	if (c->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&e->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&e->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	} else {
		__builtin_memset(e->local, 0, 16);
		__builtin_memset(e->remote, 0, 16);
		*(__be32 *)e->local = c->skc_rcv_saddr;
		*(__be32 *)e->remote = c->skc_daddr;
	}
}

/*
 * How many bytes the client had sent on this connection before the request: what the kernel has
 * counted (RFC 4898: HCThruOctetsAcked, HCThruOctetsReceived), and how far from there the request
 * is. Equal at both ends, without the initial sequence number; connections that were open before
 * the agent are no exception. The connecting side counts its SYN, the accepting side does not.
 */
INLINE u64 stream_offset(struct sock *sk, const struct socket_state *s, u8 role)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (role == TARE_CLIENT)
		return tp->bytes_acked + (u32)(tp->write_seq - tp->snd_una) - 1;
	return tp->bytes_received - (u32)(tp->rcv_nxt - s->begin_seq);
}

/* Returns what the payload looks like, so that it need not be read again. */
INLINE enum payload_kind emit_start(struct sock *sk, const struct socket_state *s, u8 role,
				    u8 flags, const struct context *ctx, u64 parent, u64 ends,
				    u64 now, u32 size, struct bytes b)
{
	struct start_record *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(TARE_C_RING_FULL);
		return PAYLOAD_OTHER;
	}
	e->ends = ends;
	e->threshold = sampling_threshold;
	e->type = TARE_START;
	e->role = role;
	e->flags = flags;
	e->service = s->service;
	e->ts = now;
	e->span_id = ctx->span;
	e->trace_hi = ctx->hi;
	e->trace_lo = ctx->lo;
	e->parent_id = parent;
	u64 id = bpf_get_current_pid_tgid();
	e->tgid = id >> 32;
	e->tid = id;
	e->offset = cfg_sequence ? stream_offset(sk, s, role) : 0;
	e->bytes = size;
	copy_addresses(e, sk);
	e->payload_len = 0;
	u32 len = b.len < TARE_PAYLOAD_START ? b.len : TARE_PAYLOAD_START;
	enum payload_kind kind = PAYLOAD_OTHER;
	if (cfg_payload && b.data && len && !bpf_probe_read_user(e->payload, len, b.data)) {
		e->payload_len = len;
		kind = payload_kind(e->payload, len);
	}
	bpf_ringbuf_submit(e, ring_flags());
	return kind;
}

INLINE void emit_data(u64 span, u8 direction, u8 flags, u32 size, u64 now, struct bytes b)
{
	u32 len = b.len < TARE_PAYLOAD_DATA ? b.len : TARE_PAYLOAD_DATA;
	if (cfg_payload && b.data && len) {
		struct data_record *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
		if (!e) {
			count(TARE_C_RING_FULL);
			return;
		}
		e->type = TARE_DATA;
		e->direction = direction;
		e->flags = flags;
		e->bytes = size;
		e->ts = now;
		e->span_id = span;
		e->payload_len = bpf_probe_read_user(e->payload, len, b.data) ? 0 : len;
		bpf_ringbuf_submit(e, ring_flags());
		return;
	}
	struct data_record *e = bpf_ringbuf_reserve(&events, TARE_DATA_SHORT, 0);
	if (!e) {
		count(TARE_C_RING_FULL);
		return;
	}
	e->type = TARE_DATA;
	e->direction = direction;
	e->flags = flags;
	e->payload_len = 0;
	e->bytes = size;
	e->ts = now;
	e->span_id = span;
	bpf_ringbuf_submit(e, ring_flags());
}

INLINE void emit_end(u64 span, u8 reason, u16 error)
{
	struct end_record *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(TARE_C_RING_FULL);
		return;
	}
	e->type = TARE_END;
	e->reason = reason;
	e->error = error;
	e->pad = 0;
	e->ts = bpf_ktime_get_ns();
	e->span_id = span;
	bpf_ringbuf_submit(e, ring_flags());
}

#endif
