//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections: which are traced, where the mark and the tags are written and read.
 *
 * WRITE and PARSE_UNKNOWN are armed on connected sockets of traced services towards trusted
 * networks, PARSE_UNKNOWN on their accepted sockets, and WRITE there while a mark is answered;
 * nothing else is ever called back, and without TARE_TAG_TCP not even that. The same room is
 * reserved at CURRENT_MSS and at transmission, so that segments with a tag fit the path.
 */

/* The calls that a connection needs. */
INLINE int armed_for(const struct conn *c)
{
	if (cfg_tag != TARE_TAG_TCP)
		return 0;
	if (c->flags & C_SERVER)
		return BPF_CB_PARSE;
	if ((c->flags & (C_CLIENT | C_TRUSTED | C_LOCAL)) == (C_CLIENT | C_TRUSTED))
		return BPF_CB_PARSE | BPF_CB_WRITE;
	return 0;
}

/* ---- opening ---- */

INLINE void on_listen(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u32 tgid = bpf_get_current_task_btf()->tgid;
	if (!tp)
		return;
	struct port_key k = local_port_of(common_of(tp));
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	if (!svc) {
		struct control_record c = {
		    .type = TARE_LISTEN, .tgid = tgid, .netns = k.netns, .port = k.port};
		control_tell(&c);
		return;
	}
	struct conn *c = conn_create(sk);
	if (!c)
		return;
	conn_ends(c, 0); /* used before, and disconnected */
	conn_listens(c, &k, svc);
	proof_listens(c, (u64)tp);
	listener_note(common_of(tp), &k, svc);
	worker_listens(svc->linking, &k);
}

/* The local port is chosen. */
INLINE void on_connect(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct conn *c = tp ? conn_find(sk) : 0;
	if (c && c->flags & C_IGNORED)
		worker_called_itself(c, common_of(tp)->skc_num);
}

/* A connection stands: its service promises tags, unless none of its sends can be linked. */
INLINE void connected(struct conn *c, const struct tcp_sock *tp, u32 trust)
{
	conn_connected(c, tp, trust);
	if (service_silent(c))
		c->flags |= C_SILENT;
}

INLINE void arm_here(struct bpf_sock_ops *o, struct conn *c)
{
	int flags = armed_for(c) & ~o->bpf_sock_ops_cb_flags;
	if (flags & BPF_CB_WRITE)
		c->flags |= C_ARMED;
	if (flags)
		bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | flags);
}

INLINE void on_active(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
	struct conn *c = conn_find(sk);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!c || !tp || !(c->flags & C_CLIENT) || conn_is_subflow(c, tp))
		return;
	connected(c, tp, trust_of(common_of(tp)));
	arm_here(o, c);
}

/* ---- tags in ---- */

INLINE void tag_came(struct conn *c, const struct tag_context *ctx, u32 start, u32 copied)
{
	if (ctx->span == c->server.last_tag)
		return; /* a copy: the kernel or the card cut one large segment into several */
	if (before(start, copied)) {
		if (!tag_noted(ctx->span))
			count(TARE_C_TAG_STALE);
	} else if (c->flags & C_HTTP2) {
		stream_tag_came(c, ctx, start);
	} else {
		rx_push(c, ctx, start);
	}
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
INLINE void answer_mark(struct bpf_sock_ops *o, struct conn *c, u32 write_seq)
{
	c->flags |= C_ANSWERED;
	conn_mark(c, write_seq);
	if (o->bpf_sock_ops_cb_flags & BPF_CB_WRITE)
		return;
	c->flags |= C_ARMED;
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags | BPF_CB_WRITE);
}

__noinline int on_parse(struct bpf_sock_ops *o, struct conn *c, u32 copied_seq, u32 write_seq,
			u64 arrived)
{
	if (!o || !c)
		return 0;
	struct tag_option opt = {.kind = TAG_KIND};
	int n = bpf_load_hdr_opt(o, &opt, sizeof(opt), 0);
	if (cfg_retro && n <= 0 && n != -ENOSPC) {
		opt.kind = MARK_KIND;
		opt.len = MARK_LEN;
		opt.bytes[0] = MARK_ID_0;
		opt.bytes[1] = RETRO_ID_1;
		n = bpf_load_hdr_opt(o, &opt, sizeof(opt), 0);
	}
	if (n > 0 || n == -ENOSPC) {
		struct tag_context ctx;
		u32 offset;
		if (!(c->flags & C_TRUSTED)) {
			count(TARE_C_TAG_UNTRUSTED);
			return 0;
		}
		enum tag_result r = n > 0 ? tag_decode(&opt, &ctx, &offset) : TAG_MALFORMED;
		if (r == TAG_MALFORMED) {
			count(TARE_C_TAG_MALFORMED);
			return 0;
		}
		conn_promised(c);
		if (!(c->flags & C_ANSWERED))
			answer_mark(o, c, write_seq); /* a segment with a tag has no mark */
		void *th = o->skb_data, *end = o->skb_data_end;
		if (tag_counts(r, &ctx) && th + 20 <= end && in_turn(arrived))
			tag_came(c, &ctx, bpf_ntohl(*(__be32 *)(th + 4)) + offset, copied_seq);
		return 0;
	}
	if (!(c->flags & C_TRUSTED))
		return 0;
	struct tag_option named = {
	    .kind = MARK_KIND, .len = MARK_LEN, .bytes = {MARK_ID_0, STREAMS_ID_1}};
	if (bpf_load_hdr_opt(o, &named, sizeof(named), 0) > 0) {
		conn_promised(c);
		if (!(c->flags & C_ANSWERED))
			answer_mark(o, c, write_seq);
		if (in_turn(arrived))
			streams_came(c, &named);
		return 0;
	}
	u8 mark[MARK_ROOM];
	u32 len = read_mark(o, mark);
	if (len == MARK_LEN)
		conn_promised(c);
	else if (len)
		conn_behind(c, mark + MARK_LEN);
	if (len)
		answer_mark(o, c, write_seq);
	return 0;
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
		struct service *svc = listener_of(common_of(tp), &k);
		if (!svc)
			return;
		c = conn_create(sk);
		if (!c)
			return;
		c->service = svc->index;
		c->linking = svc->linking;
	}
	if (conn_is_subflow(c, tp))
		return;
	gate_open((u64)sk); /* of a socket that was in its place before */
	conn_accepted(c, tp, trust_of(common_of(tp)), OPENING_NEW);
	if (worker_wakes_itself(c)) {
		c->flags = C_IGNORED;
		return;
	}
	inbox_open(c);
	arm_here(o, c);
	if (cfg_tag == TARE_TAG_IP)
		ip_passive(o);
	if (cfg_tag == TARE_TAG_TCP) /* PARSE does not see what completes the handshake */
		on_parse(o, c, tp->copied_seq, tp->write_seq, ARRIVED(tp, LOAD));
}

/* ---- tags out ---- */

/* Nothing more is to be written, unless for another sock_ops program. */
INLINE void disarm_write(struct bpf_sock_ops *o, struct conn *c)
{
	if (!(c->flags & C_ARMED))
		return;
	c->flags &= ~C_ARMED;
	bpf_sock_ops_cb_flags_set(o, o->bpf_sock_ops_cb_flags & ~BPF_CB_WRITE);
}

/* The mark that answers one goes until the first bytes behind it are acknowledged. */
INLINE void on_reserve_answer(struct bpf_sock_ops *o, struct conn *c)
{
	conn_marked(c, o->snd_una);
	if (c->flags & C_MARK)
		bpf_reserve_hdr_opt(o, MARK_LEN, 0);
	else
		disarm_write(o, c);
}

/* The first send will know whether the other end has an inbox. */
INLINE bool may_be_local(struct conn *c)
{
	return cfg_same_host && !(c->flags & C_SENT) && is_loopback(c->family, c->remote);
}

INLINE void reserve_mark(struct bpf_sock_ops *o, struct conn *c)
{
	if (c->flags & C_MARK && !is_succeeded())
		bpf_reserve_hdr_opt(o, c->flags & C_SILENT ? MARK_ROOM : MARK_LEN, 0);
}

/* Acknowledgements of what is behind a loss (SACK) leave less room: it names streams. */
INLINE void reserve_tag(struct bpf_sock_ops *o, struct conn *c)
{
	if (bpf_reserve_hdr_opt(o, TAG_RESERVE, 0) && c->flags & C_HTTP2)
		bpf_reserve_hdr_opt(o, STREAMS_RUN, 0);
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
	if (c->flags & C_LOCAL && !c->tags) {
		disarm_write(o, c);
		return;
	}
	bool tags = c->tags || streams_wait(c, o->snd_una);
	if (o->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS) {
		if (c->tags)
			tx_prune(c, o->snd_una);
		conn_marked(c, o->snd_una);
		if (c->flags & C_FLIP)
			conn_flip(c, o->snd_nxt);
		if (tags || (!cfg_early && c->flags & C_TRUSTED && worker_may_ask(c)))
			reserve_tag(o, c);
		else
			reserve_mark(o, c);
		return;
	}
	if (tags && o->skb_len)
		reserve_tag(o, c);
	else if (o->skb_len || !may_be_local(c))
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

/* Names the streams that begin in a segment; not one that has a tag, if there is room for that. */
__noinline int write_streams(struct bpf_sock_ops *o, struct conn *c, u32 seq, u32 size,
			     u32 untagged)
{
	struct tag_option named = {};
	if (!o || !c)
		return 0;
	int n = streams_in(c, seq, size, &named);
	if (!n || (n == 1 && !untagged && tx_within(c, seq, size, false)))
		return 0;
	if (bpf_store_hdr_opt(o, &named, named.len == STREAMS_RUN ? STREAMS_RUN : STREAMS_LEN, 0))
		return 0;
	tx_within(c, seq, size, true);
	return 1;
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
	if (size && streams_wait(c, o->snd_una) && write_streams(o, c, seq, size, false))
		return;
	for (int i = 0; i < TAGS; i++) { /* an accepted socket keeps tags that came in */
		if (i >= c->tags || !(c->flags & C_CLIENT))
			break;
		u32 offset = c->client.tx[i].start - seq;
		if (offset >= size || offset > TAG_MAX_OFFSET || tx_gives_way(c, i, seq, size))
			continue;
		struct tag_option opt = {};
		u32 len = tag_encode(&opt, &c->client.tx[i].ctx, offset);
		if (!len)
			continue;
		if (!bpf_store_hdr_opt(o, &opt, TAG_BYTES(len), 0)) {
			c->client.tx[i].written = 1;
			count(TARE_C_TAG_SENT);
		} else if (streams_wait(c, o->snd_una)) {
			write_streams(o, c, seq, size, true);
		}
		return;
	}
	if (c->flags & C_MARK && !(c->flags & C_CLIENT && is_succeeded()))
		write_mark(o, c);
}

/* Options of a segment; a socket may be armed for another sock_ops program only. */
INLINE void on_options(struct bpf_sock_ops *o, struct bpf_sock *sk)
{
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
			on_parse(o, c, tp->copied_seq, tp->write_seq, ARRIVED(tp, LOAD));
		else if (c && c->flags & C_CLIENT)
			on_parse_answer(o, c);
		break;
	}
	}
}

SEC("sockops")
int tare_sockops(struct bpf_sock_ops *o)
{
	struct bpf_sock *sk = o->sk;
	u64 began = weigh_begins();
	if (!sk)
		return 1;
	switch (o->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		on_connect(o, sk);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		on_active(o, sk);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_passive(o, sk);
		break;
	case BPF_SOCK_OPS_BASE_RTT: { /* asked by arm_by_nv */
		struct conn *c = cfg_arm_nv ? conn_find(sk) : 0;
		if (c)
			arm_here(o, c);
		break;
	}
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_listen(o, sk);
		break;
	default:
		if (cfg_tag == TARE_TAG_TCP)
			on_options(o, sk);
	}
	if (began)
		weigh_ends(began, conn_find(sk));
	return 1;
}
