//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections: which are traced, where the mark and the tags are written and read.
 *
 * WRITE and PARSE_UNKNOWN are armed on connected sockets of traced services towards trusted
 * networks, PARSE_UNKNOWN on their accepted sockets, and WRITE there while a mark is answered;
 * nothing else is ever called back. The same room is reserved at
 * CURRENT_MSS and at transmission, so that segments with a tag fit the path.
 */

#define BPF_CB_WRITE BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG
#define BPF_CB_PARSE BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG

INLINE bool is_trusted(const struct sock_common *c)
{
	struct prefix p = {.bits = 128};
	if (c->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&p.address, c, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		p.address[10] = p.address[11] = 0xff;
		*(__be32 *)&p.address[12] = c->skc_daddr;
	}
	return bpf_map_lookup_elem(&trusted, &p) != 0;
}

INLINE void state_server(struct socket_state *s, const struct tcp_sock *tp, bool trusted_peer)
{
	s->flags = S_SERVER | (trusted_peer ? S_TRUSTED : 0);
	s->tags = 0;
	s->rcv_seq = tp->copied_seq;
	s->snd_seq = tp->write_seq - 1; /* the first bytes begin a request */
	s->msg_end = tp->write_seq;
	s->ctx.span = s->span = s->last_tag = 0;
	measure_reset(s);
}

INLINE void state_client(struct socket_state *s, const struct tcp_sock *tp, bool trusted_peer)
{
	s->flags |= S_CLIENT | (trusted_peer ? S_TRUSTED | S_MARK : 0);
	s->rcv_seq = tp->copied_seq;
	s->mark_seq = tp->write_seq;
}

INLINE const struct sock_common *common_of(const struct tcp_sock *tp)
{
	return &tp->inet_conn.icsk_inet.sk.__sk_common;
}

INLINE struct port_key local_port_of(const struct sock_common *c)
{
	struct port_key k = {.port = c->skc_num};
	k.netns = c->skc_net.net->ns.inum;
	return k;
}

/* ---- opening ---- */

INLINE void on_listen(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	if (!tp)
		return;
	struct port_key k = local_port_of(common_of(tp));
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (!svc) {
		struct control_record c = {
		    .type = TARE_LISTEN, .tgid = tgid, .netns = k.netns, .port = k.port};
		bpf_ringbuf_output(&control, &c, sizeof(c), 0);
		return;
	}
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s) {
		count(TARE_C_STORAGE_FULL);
		return;
	}
	s->flags = S_LISTENER;
	s->service = svc->index;
	s->linking = svc->linking;
	bpf_map_update_elem(&listeners, &k, svc, BPF_ANY);
}

/* Process context, in connect(). */
INLINE void on_connect(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (!svc)
		return;
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s) {
		count(TARE_C_STORAGE_FULL);
		return;
	}
	s->flags = S_CLIENT;
	s->service = svc->index;
	s->linking = svc->linking;
	s->ctx.span = 0;
	measure_reset(s);
	if (svc->linking == TARE_LINK_LOOP) {
		/* the first send comes when the connection stands, after other requests' turns */
		s->flags |= S_BOUND;
		if (any_alive())
			thread_get(true, true, &s->ctx);
	}
}

INLINE void on_active(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!s || !tp || !(s->flags & S_CLIENT))
		return;
	bool trust = is_trusted(common_of(tp));
	state_client(s, tp, trust);
	if (trust)
		bpf_sock_ops_cb_flags_set(o,
					  o->bpf_sock_ops_cb_flags | BPF_CB_WRITE | BPF_CB_PARSE);
}

/* ---- tags in ---- */

INLINE void rx_push(struct socket_state *s, const struct tag_context *ctx, u32 start, u32 copied)
{
	if (ctx->span == s->last_tag)
		return; /* a copy: the kernel or the card cut one large segment into several */
	for (int i = 0; i < TAGS; i++) {
		if (i >= s->tags || s->rx[i].ctx.span != ctx->span)
			continue;
		if (before(start, s->rx[i].start))
			s->rx[i].start = start;
		return;
	}
	if (before(start, copied)) {
		if (!tag_noted(ctx->span))
			count(TARE_C_TAG_STALE);
		return;
	}
	u32 n = s->tags;
	if (n >= TAGS) {
		count(TARE_C_TAG_OVERFLOW);
		return;
	}
	struct rx_tag *t = &s->rx[n & (TAGS - 1)];
	t->ctx = *ctx;
	t->start = start;
	t->read = 0;
	s->tags = n + 1;
}

INLINE bool has_mark(struct bpf_sock_ops *o)
{
	u8 mark[MARK_LEN] = {MARK_KIND, MARK_LEN, MARK_ID_0, MARK_ID_1};
	return bpf_load_hdr_opt(o, mark, sizeof(mark), 0) > 0;
}

/*
 * A mark is answered by a mark: the peer learns that a traced service listens here. Answered anew
 * whenever it is renewed, so that a peer does not believe forever in a tracer that is gone.
 */
INLINE void answer_mark(struct bpf_sock_ops *o, struct socket_state *s, const struct tcp_sock *tp)
{
	s->flags |= S_PEER_TRACED | S_MARK | S_ANSWERED;
	s->mark_seq = tp->write_seq;
	if (o->bpf_sock_ops_cb_flags & BPF_CB_WRITE)
		return;
	s->flags |= S_ARMED;
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | BPF_CB_WRITE);
}

INLINE void on_parse(struct bpf_sock_ops *o, struct socket_state *s, const struct tcp_sock *tp)
{
	struct tag_option opt = {.kind = TAG_KIND};
	int n = bpf_load_hdr_opt(o, &opt, sizeof(opt), 0);
	if (n > 0 || n == -ENOSPC) {
		struct tag_context ctx;
		u32 offset;
		if (!(s->flags & S_TRUSTED)) {
			count(TARE_C_TAG_UNTRUSTED);
			return;
		}
		enum tag_result r = n > 0 ? tag_decode(&opt, &ctx, &offset) : TAG_MALFORMED;
		if (r == TAG_MALFORMED) {
			count(TARE_C_TAG_MALFORMED);
			return;
		}
		if (s->flags & S_ANSWERED)
			s->flags |= S_PEER_TRACED;
		else
			answer_mark(o, s, tp); /* a segment with a tag has no mark */
		void *th = o->skb_data, *end = o->skb_data_end;
		if (r == TAG_OK && th + 20 <= end)
			rx_push(s, &ctx, bpf_ntohl(*(__be32 *)(th + 4)) + offset, tp->copied_seq);
		return;
	}
	if (s->flags & S_TRUSTED && has_mark(o))
		answer_mark(o, s, tp);
}

/* What comes back to a connected socket. */
INLINE void on_parse_answer(struct bpf_sock_ops *o, struct socket_state *s)
{
	if (s->flags & S_TRUSTED && has_mark(o))
		s->flags |= S_PEER_TRACED | S_ANSWERED;
}

INLINE void on_passive(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, 0); /* the listener's copy */
	if (!tp)
		return;
	if (!s) {
		struct port_key k = local_port_of(common_of(tp));
		struct service *svc = bpf_map_lookup_elem(&listeners, &k);
		if (!svc)
			return;
		s = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!s) {
			count(TARE_C_STORAGE_FULL);
			return;
		}
		s->service = svc->index;
		s->linking = svc->linking;
	}
	state_server(s, tp, is_trusted(common_of(tp)));
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | BPF_CB_PARSE);
	on_parse(o, s, tp); /* PARSE does not see the segment that completes the handshake */
}

/* ---- tags out ---- */

/* The mark that answers one goes until the first bytes behind it are acknowledged. */
INLINE void on_reserve_answer(struct bpf_sock_ops *o, struct socket_state *s)
{
	if (s->flags & S_MARK && before(s->mark_seq, o->snd_una))
		s->flags &= ~S_MARK;
	if (s->flags & S_MARK) {
		bpf_reserve_hdr_opt(o, MARK_LEN, 0);
	} else if (s->flags & S_ARMED) { /* else it is armed for another sock_ops program */
		s->flags &= ~S_ARMED;
		bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags & ~BPF_CB_WRITE);
	}
}

/* The send that follows may carry a tag; only the send hook knows. */
INLINE bool may_tag(struct socket_state *s)
{
	if (!(s->flags & S_TRUSTED) || !any_alive() || s->linking == TARE_LINK_NONE)
		return false;
	if (s->flags & S_BOUND)
		return s->ctx.span != 0;
	if (s->linking == TARE_LINK_QUEUE)
		return true;
	struct thread_state *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	return t && t->ctx.span;
}

INLINE void on_reserve(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (s && s->flags & S_SERVER) {
		on_reserve_answer(o, s);
		return;
	}
	if (!s || !(s->flags & S_CLIENT))
		return;
	if (o->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS) {
		if (s->tags)
			tx_prune(s, o->snd_una);
		if (s->flags & S_MARK && before(s->mark_seq, o->snd_una))
			s->flags &= ~S_MARK;
		if (s->tags || may_tag(s))
			bpf_reserve_hdr_opt(o, TAG_RESERVE, 0);
		else if (s->flags & S_MARK)
			bpf_reserve_hdr_opt(o, MARK_LEN, 0);
		return;
	}
	if (s->tags && o->skb_len)
		bpf_reserve_hdr_opt(o, TAG_RESERVE, 0);
	else if (s->flags & S_MARK)
		bpf_reserve_hdr_opt(o, MARK_LEN, 0);
}

INLINE void on_write(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
	void *th = o->skb_data, *end = o->skb_data_end;
	if (!s || th + 20 > end)
		return;
	u32 seq = bpf_ntohl(*(__be32 *)(th + 4));
	u32 header = (*(u8 *)(th + 12) >> 4) * 4;
	u32 size = o->skb_len - header;
	for (int i = 0; i < TAGS; i++) { /* an accepted socket keeps tags that came in */
		if (i >= s->tags || !(s->flags & S_CLIENT))
			break;
		u32 offset = s->tx[i].start - seq;
		if (offset >= size || offset > TAG_MAX_OFFSET)
			continue;
		struct tag_option opt = {};
		u32 len = tag_encode(&opt, &s->tx[i].ctx, offset);
		if (!bpf_store_hdr_opt(o, &opt, len == TAG_LEN ? TAG_LEN : TAG_LEN_OFFSET, 0)) {
			s->tx[i].written = 1;
			count(TARE_C_TAG_SENT);
		}
		return;
	}
	if (s->flags & S_MARK) {
		u8 mark[MARK_LEN] = {MARK_KIND, MARK_LEN, MARK_ID_0, MARK_ID_1};
		bpf_store_hdr_opt(o, mark, sizeof(mark), 0);
	}
}

SEC("sockops")
int tare_sockops(struct bpf_sock_ops *o)
{
	struct bpf_sock *sk = o->sk;
	if (!sk)
		return 1;
	switch (o->op) {
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		on_reserve(o, sk);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		on_write(o, sk);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB: {
		struct socket_state *s = bpf_sk_storage_get(&sockets, sk, 0, 0);
		struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
		if (s && tp && s->flags & S_SERVER)
			on_parse(o, s, tp);
		else if (s && s->flags & S_CLIENT)
			on_parse_answer(o, s);
		break;
	}
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		on_connect(o, sk);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		on_active(o, sk);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_passive(o, sk);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_listen(o, sk);
		break;
	}
	return 1;
}
