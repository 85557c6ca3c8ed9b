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
	struct conn *c = conn_create(sk);
	if (!c)
		return;
	c->flags = C_LISTENER;
	c->service = svc->index;
	c->linking = svc->linking;
	bpf_map_update_elem(&listeners, &k, svc, BPF_ANY);
	worker_listens(svc->linking, &k);
}

/* Process context, in connect(). */
INLINE void on_connect(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (!svc)
		return;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct conn *c = tp ? conn_create(sk) : 0;
	if (!c)
		return;
	if (c->flags & C_SERVER) /* used before, and disconnected */
		server_closed(c, 0);
	else if (c->flags & C_CLIENT)
		client_closed(c, 0);
	conn_connecting(c);
	c->service = svc->index;
	c->linking = svc->linking;
	conn_addresses(c, common_of(tp));
	worker_connects(c);
}

/* A connection stands: its service promises tags, unless none of its sends can be linked. */
INLINE void connected(struct conn *c, const struct tcp_sock *tp, bool trusted_peer)
{
	conn_connected(c, tp, trusted_peer);
	if (service_unlinked(c))
		c->flags |= C_SILENT;
}

INLINE void on_active(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct conn *c = conn_find(sk);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!c || !tp || !(c->flags & C_CLIENT))
		return;
	bool trust = is_trusted(common_of(tp));
	connected(c, tp, trust);
	if (trust)
		bpf_sock_ops_cb_flags_set(o,
					  o->bpf_sock_ops_cb_flags | BPF_CB_WRITE | BPF_CB_PARSE);
}

/* ---- tags in ---- */

INLINE void rx_push(struct conn *c, const struct tag_context *ctx, u32 start, u32 copied)
{
	if (ctx->span == c->server.last_tag)
		return; /* a copy: the kernel or the card cut one large segment into several */
	for (int i = 0; i < TAGS; i++) {
		if (i >= c->tags || c->server.rx[i].ctx.span != ctx->span)
			continue;
		if (before(start, c->server.rx[i].start))
			c->server.rx[i].start = start;
		return;
	}
	if (before(start, copied)) {
		if (!tag_noted(ctx->span))
			count(TARE_C_TAG_STALE);
		return;
	}
	u32 n = c->tags;
	if (n >= TAGS) {
		count(TARE_C_TAG_OVERFLOW);
		return;
	}
	struct rx_tag *t = &c->server.rx[n & (TAGS - 1)];
	t->ctx = *ctx;
	t->start = start;
	t->read = 0;
	c->tags = n + 1;
}

/* Reads the mark of a segment into MARK_ROOM bytes; returns its length, 0: none. */
INLINE u32 read_mark(struct bpf_sock_ops *o, u8 *mark)
{
	__builtin_memset(mark, 0, MARK_ROOM);
	mark[0] = MARK_KIND;
	mark[1] = MARK_LEN; /* how much of this is what to look for */
	mark[2] = MARK_ID_0;
	mark[3] = MARK_ID_1;
	int n = bpf_load_hdr_opt(o, mark, MARK_ROOM, 0);
	return n > 0 ? n : 0;
}

/*
 * A mark is answered by a mark: the peer learns that a traced service listens here. Answered anew
 * whenever it is renewed, so that a peer does not believe forever in a tracer that is gone.
 */
INLINE void answer_mark(struct bpf_sock_ops *o, struct conn *c, const struct tcp_sock *tp)
{
	c->flags = (c->flags | C_MARK | C_ANSWERED) & ~C_TOLD;
	c->mark_seq = tp->write_seq;
	if (o->bpf_sock_ops_cb_flags & BPF_CB_WRITE)
		return;
	c->flags |= C_ARMED;
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | BPF_CB_WRITE);
}

INLINE void on_parse(struct bpf_sock_ops *o, struct conn *c, const struct tcp_sock *tp)
{
	struct tag_option opt = {.kind = TAG_KIND};
	int n = bpf_load_hdr_opt(o, &opt, sizeof(opt), 0);
	if (n > 0 || n == -ENOSPC) {
		struct tag_context ctx;
		u32 offset;
		if (!(c->flags & C_TRUSTED)) {
			count(TARE_C_TAG_UNTRUSTED);
			return;
		}
		enum tag_result r = n > 0 ? tag_decode(&opt, &ctx, &offset) : TAG_MALFORMED;
		if (r == TAG_MALFORMED) {
			count(TARE_C_TAG_MALFORMED);
			return;
		}
		c->flags = (c->flags | C_PEER_TRACED) & ~C_BEHIND;
		if (!(c->flags & C_ANSWERED))
			answer_mark(o, c, tp); /* a segment with a tag has no mark */
		void *th = o->skb_data, *end = o->skb_data_end;
		if (r == TAG_OK && th + 20 <= end)
			rx_push(c, &ctx, bpf_ntohl(*(__be32 *)(th + 4)) + offset, tp->copied_seq);
		return;
	}
	u8 mark[MARK_ROOM];
	u32 len = c->flags & C_TRUSTED ? read_mark(o, mark) : 0;
	if (len == MARK_LEN) {
		c->flags = (c->flags | C_PEER_TRACED) & ~C_BEHIND;
	} else if (len) {
		c->flags = (c->flags | C_BEHIND) & ~C_PEER_TRACED;
		__builtin_memcpy(c->server.behind, mark + MARK_LEN, MARK_NAME);
	}
	if (len)
		answer_mark(o, c, tp);
}

/* What comes back to a connected socket. */
INLINE void on_parse_answer(struct bpf_sock_ops *o, struct conn *c)
{
	u8 mark[MARK_ROOM];
	if (c->flags & C_TRUSTED && read_mark(o, mark))
		c->flags |= C_PEER_TRACED | C_ANSWERED;
}

INLINE void on_passive(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct conn *c = conn_find(sk); /* the listener's copy */
	if (!tp)
		return;
	if (!c) {
		struct port_key k = local_port_of(common_of(tp));
		struct service *svc = bpf_map_lookup_elem(&listeners, &k);
		if (!svc)
			return;
		c = conn_create(sk);
		if (!c)
			return;
		c->service = svc->index;
		c->linking = svc->linking;
	}
	conn_accepted(c, tp, is_trusted(common_of(tp)), OPENING_NEW);
	if (worker_wakes_itself(c)) {
		c->flags = C_IGNORED;
		return;
	}
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | BPF_CB_PARSE);
	on_parse(o, c, tp); /* PARSE does not see the segment that completes the handshake */
}

/* ---- tags out ---- */

/* The mark that answers one goes until the first bytes behind it are acknowledged. */
INLINE void on_reserve_answer(struct bpf_sock_ops *o, struct conn *c)
{
	conn_marked(c, o->snd_una);
	if (c->flags & C_MARK) {
		bpf_reserve_hdr_opt(o, MARK_LEN, 0);
	} else if (c->flags & C_ARMED) { /* else it is armed for another sock_ops program */
		c->flags &= ~C_ARMED;
		bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags & ~BPF_CB_WRITE);
	}
}

INLINE void reserve_mark(struct bpf_sock_ops *o, struct conn *c)
{
	if (c->flags & C_MARK)
		bpf_reserve_hdr_opt(o, c->flags & C_SILENT ? MARK_ROOM : MARK_LEN, 0);
}

INLINE void on_reserve(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct conn *c = conn_find(sk);
	if (c && c->flags & C_SERVER) {
		on_reserve_answer(o, c);
		return;
	}
	if (!c || !(c->flags & C_CLIENT))
		return;
	if (o->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS) {
		if (c->tags)
			tx_prune(c, o->snd_una);
		conn_marked(c, o->snd_una);
		if (c->flags & C_FLIP)
			conn_flip(c, o->snd_nxt);
		if (c->tags || (c->flags & C_TRUSTED && worker_may_ask(c)))
			bpf_reserve_hdr_opt(o, TAG_RESERVE, 0);
		else
			reserve_mark(o, c);
		return;
	}
	if (c->tags && o->skb_len)
		bpf_reserve_hdr_opt(o, TAG_RESERVE, 0);
	else
		reserve_mark(o, c);
}

INLINE void write_mark(struct bpf_sock_ops *o, struct conn *c)
{
	u8 mark[MARK_ROOM] = {MARK_KIND, MARK_LEN, MARK_ID_0, MARK_ID_1};
	if (!(c->flags & C_CLIENT && c->flags & C_SILENT)) {
		if (!bpf_store_hdr_opt(o, mark, MARK_LEN, 0))
			c->flags |= C_TOLD;
		return;
	}
	struct service_state *svc = service_of(c->service);
	if (svc)
		__builtin_memcpy(mark + MARK_LEN, svc->name, MARK_NAME);
	mark[1] = MARK_ROOM;
	if (!bpf_store_hdr_opt(o, mark, sizeof(mark), 0))
		c->flags |= C_TOLD;
}

INLINE void on_write(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct conn *c = conn_find(sk);
	void *th = o->skb_data, *end = o->skb_data_end;
	if (!c || th + 20 > end)
		return;
	u32 seq = bpf_ntohl(*(__be32 *)(th + 4));
	u32 header = (*(u8 *)(th + 12) >> 4) * 4;
	u32 size = o->skb_len - header;
	for (int i = 0; i < TAGS; i++) { /* an accepted socket keeps tags that came in */
		if (i >= c->tags || !(c->flags & C_CLIENT))
			break;
		u32 offset = c->client.tx[i].start - seq;
		if (offset >= size || offset > TAG_MAX_OFFSET)
			continue;
		struct tag_option opt = {};
		u32 len = tag_encode(&opt, &c->client.tx[i].ctx, offset);
		if (!bpf_store_hdr_opt(o, &opt, len == TAG_LEN ? TAG_LEN : TAG_LEN_OFFSET, 0)) {
			c->client.tx[i].written = 1;
			count(TARE_C_TAG_SENT);
		}
		return;
	}
	if (c->flags & C_MARK)
		write_mark(o, c);
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
		struct conn *c = conn_find(sk);
		struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
		if (c && tp && c->flags & C_SERVER)
			on_parse(o, c, tp);
		else if (c && c->flags & C_CLIENT)
			on_parse_answer(o, c);
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
