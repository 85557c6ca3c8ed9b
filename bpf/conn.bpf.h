/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections: what a hook has to fetch of a socket, how a connection's state begins, and the tags
 * that wait for their request or for their segment.
 */
#ifndef TARE_CONN_H
#define TARE_CONN_H

/* What a hook has fetched of the socket for what follows, which touches no kernel memory. */
struct tcp_view {
	u64 sock;			 /* its address, as an identity */
	u64 bytes_received, bytes_acked; /* only if cfg_sequence */
	u32 copied_seq, write_seq, snd_una, rcv_nxt;
	u32 in_epoll; /* an event loop watches it; only of connected sockets */
	u32 mss;      /* bytes of a segment */
};

INLINE void view(struct tcp_view *v, struct sock *sk, const struct tcp_sock *tp)
{
	v->sock = (u64)sk;
	v->copied_seq = tp->copied_seq;
	v->write_seq = tp->write_seq;
	v->snd_una = tp->snd_una;
	v->mss = tp->mss_cache;
	if (cfg_sequence) {
		v->rcv_nxt = tp->rcv_nxt;
		v->bytes_received = tp->bytes_received;
		v->bytes_acked = tp->bytes_acked;
	}
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

INLINE void conn_addresses(struct conn *s, const struct sock_common *c)
{
	s->local_port = c->skc_num;
	s->remote_port = bpf_ntohs(c->skc_dport);
	s->family = c->skc_family;
	s->netns = c->skc_net.net->ns.inum;
	__builtin_memset(s->local, 0, sizeof(s->local));
	__builtin_memset(s->remote, 0, sizeof(s->remote));
	if (c->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&s->local, c, skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&s->remote, c, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		*(__be32 *)s->local = c->skc_rcv_saddr;
		*(__be32 *)s->remote = c->skc_daddr;
	}
}

/* 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104 */
INLINE bool is_loopback(u8 family, const u8 *address)
{
	if (family == AF_INET)
		return address[0] == 127;
	const __be32 *a = (const void *)address;
	u32 last = bpf_ntohl(a[3]);
	return !(a[0] | a[1]) &&
	       ((!a[2] && last == 1) || (a[2] == bpf_htonl(0xffff) && last >> 24 == 127));
}

/* An accepted connection begins to be traced. */
INLINE void conn_accepted(struct conn *c, const struct tcp_sock *tp, bool trusted_peer,
			  enum opening opening)
{
	conn_addresses(c, common_of(tp));
	__builtin_memset(&c->server, 0, sizeof(c->server));
	__builtin_memset(&c->tls, 0, sizeof(c->tls));
	__builtin_memset(&c->measured, 0, sizeof(c->measured));
	c->flags = C_SERVER | (trusted_peer ? C_TRUSTED : 0);
	c->opening = opening;
	c->tags = 0;
	c->rcv_seq = tp->copied_seq;
	c->server.sent_seq = tp->write_seq - 1; /* the first bytes begin a request */
	c->msg_end = tp->write_seq;
}

/* A connection that a traced process opens, before it stands. */
INLINE void conn_connecting(struct conn *c)
{
	__builtin_memset(&c->client, 0, sizeof(c->client));
	__builtin_memset(&c->tls, 0, sizeof(c->tls));
	__builtin_memset(&c->measured, 0, sizeof(c->measured));
	c->flags = C_CLIENT;
	c->opening = OPENING_NEW;
	c->tags = 0;
}

/* It stands. */
INLINE void conn_connected(struct conn *c, const struct tcp_sock *tp, bool trusted_peer)
{
	conn_addresses(c, common_of(tp));
	c->flags |= C_CLIENT | (trusted_peer ? C_TRUSTED | C_MARK : 0);
	c->rcv_seq = tp->copied_seq;
	c->msg_end = c->mark_seq = tp->write_seq;
}

#define MARK_ROOM (MARK_LEN + MARK_NAME)

INLINE void conn_flip(struct conn *c, u32 seq)
{
	c->flags = ((c->flags ^ C_SILENT) | C_MARK) & ~(C_FLIP | C_TOLD);
	c->mark_seq = seq;
}

/*
 * Whether tags are promised for the request of size bytes that is sent now. A change is told with
 * its segment; but the size of segments has been settled by now, so if there is no room in it, with
 * a later one.
 */
INLINE void conn_promise(struct conn *c, bool promised, const struct tcp_view *v, u32 size)
{
	u32 silent = promised ? 0 : C_SILENT;
	if (!(c->flags & C_TRUSTED))
		return;
	if ((c->flags & C_SILENT) == silent)
		c->flags &= ~C_FLIP;
	else if (v->write_seq - v->snd_una + size + MARK_ROOM <= v->mss)
		conn_flip(c, v->write_seq);
	else
		c->flags |= C_FLIP;
}

/* The peer has acknowledged the mark. */
INLINE void conn_marked(struct conn *c, u32 snd_una)
{
	if (c->flags & C_MARK && c->flags & C_TOLD && before(c->mark_seq, snd_una))
		c->flags &= ~(C_MARK | C_TOLD);
}

/* ---- tags that came ---- */

INLINE void rx_remove(struct conn *c, u32 i)
{
	u32 last = (c->tags - 1) & (TAGS - 1);
	c->server.rx[i & (TAGS - 1)] = c->server.rx[last];
	c->tags = last;
}

/*
 * Bytes [from, to) are read, and tags wait. Marks those that begin in them as read, drops what was
 * passed over, and returns the first that is read, or -1.
 */
__noinline int rx_read(struct conn *c, u32 from, u32 to)
{
	int at = -1;
	u32 first = 0;
	if (!c)
		return -1;
	for (int i = TAGS - 1; i >= 0; i--) {
		if (i >= c->tags || c->server.rx[i].read)
			continue;
		u32 start = c->server.rx[i].start;
		if (before(start, from)) {
			count(TARE_C_TAG_STALE);
			rx_remove(c, i);
		} else if (before(start, to)) {
			c->server.rx[i].read = 1;
		}
	}
	for (int i = 0; i < TAGS; i++) {
		if (i >= c->tags || !c->server.rx[i].read)
			continue;
		if (at < 0 || before(c->server.rx[i].start, first)) {
			at = i;
			first = c->server.rx[i].start;
		}
	}
	return at;
}

/* ---- tags to be sent ---- */

INLINE void tx_remove(struct conn *c, u32 i)
{
	u32 last = (c->tags - 1) & (TAGS - 1);
	if (!c->client.tx[i & (TAGS - 1)].written)
		count(TARE_C_TAG_NO_ROOM);
	c->client.tx[i & (TAGS - 1)] = c->client.tx[last];
	c->tags = last;
}

/* A tag is kept until the peer has acknowledged the first byte of its request. */
__noinline int tx_prune(struct conn *c, u32 snd_una)
{
	if (!c)
		return 0;
	for (int i = TAGS - 1; i >= 0; i--)
		if (i < c->tags && before(c->client.tx[i].start, snd_una))
			tx_remove(c, i);
	return 0;
}

INLINE void tx_push(struct conn *c, const struct context *ctx, u32 start, u32 snd_una)
{
	if (c->tags)
		tx_prune(c, snd_una);
	u32 i = c->tags;
	if (i >= TAGS) {
		count(TARE_C_TAG_QUEUE_FULL);
		return;
	}
	struct tx_tag *t = &c->client.tx[i & (TAGS - 1)];
	t->ctx.hi = ctx->hi;
	t->ctx.lo = ctx->lo;
	t->ctx.span = ctx->span;
	t->start = start;
	t->written = 0;
	c->tags = i + 1;
}

#endif
