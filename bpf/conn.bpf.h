/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections: what a hook has to fetch of a socket, how a connection's state begins, and the tags
 * that wait for their request or for their segment.
 */
#ifndef TARE_CONN_H
#define TARE_CONN_H

/* Whether an event loop waits for what comes on a socket. */
enum watched {
	WATCHED_NEVER,	 /* it blocks */
	WATCHED_NOT_NOW, /* it does not block, and is in no epoll set */
	WATCHED_ONCE, /* it is in one, for one event at a time: as a virtual thread of Java waits, too */
	WATCHED_NOW, /* it is in one */
};

/* What a hook has fetched of the socket for what follows, which touches no kernel memory. */
struct tcp_view {
	u64 sock;			 /* its address, as an identity */
	u64 bytes_received, bytes_acked; /* only if cfg_sequence */
	u32 copied_seq, write_seq, snd_una, rcv_nxt;
	u8 watched;  /* enum watched; only of connected sockets */
	u8 buffers;  /* sends: how many there are; 0: unknown */
	u8 fails;    /* cfg_early: this send will fail */
	u8 disarmed; /* its segments are not shown to sock_ops */
	u32 mss;     /* bytes of a segment */
	union {
		u64 more; /* sends: where the kernel has the struct iovec of the second buffer; 0:
			     unknown */
		u64 arrived; /* receives: claim.bpf.h */
	};
};

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT	2
#define TCP_SYN_RECV	3
#define TCP_CLOSE	7
#define TCP_CLOSE_WAIT	8
#define TCP_LISTEN	10

#define RCV_SHUTDOWN  1
#define SEND_SHUTDOWN 2
#define SHUTDOWN_BOTH 3

#define BPF_CB_WRITE BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG
#define BPF_CB_PARSE BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG

/* States in which something can be sent; an accepted connection sends in SYN_RECV by Fast Open. */
#define SENDING_STATES (1 << TCP_ESTABLISHED | 1 << TCP_SYN_RECV | 1 << TCP_CLOSE_WAIT)

#define VIEW(v, sk, tp, GET)                                                                       \
	({                                                                                         \
		(v)->sock = (u64)sk;                                                               \
		(v)->copied_seq = GET(tp, copied_seq);                                             \
		(v)->write_seq = GET(tp, write_seq);                                               \
		(v)->snd_una = GET(tp, snd_una);                                                   \
		(v)->mss = GET(tp, mss_cache);                                                     \
		(v)->disarmed =                                                                    \
		    cfg_tag == TARE_TAG_TCP && !(GET(tp, bpf_sock_ops_cb_flags) & BPF_CB_WRITE);   \
		if (cfg_early)                                                                     \
			(v)->fails = !(SENDING_STATES >> GET(sk, __sk_common.skc_state) & 1) ||    \
				     GET(sk, sk_err) || GET(sk, sk_shutdown) & SEND_SHUTDOWN;      \
		if (cfg_sequence) {                                                                \
			(v)->rcv_nxt = GET(tp, rcv_nxt);                                           \
			(v)->bytes_received = GET(tp, bytes_received);                             \
			(v)->bytes_acked = GET(tp, bytes_acked);                                   \
		}                                                                                  \
	})
#define LOAD(p, field) ((p)->field)

INLINE void view(struct tcp_view *v, struct sock *sk, const struct tcp_sock *tp)
{
	VIEW(v, sk, tp, LOAD);
}

/* The same in a kprobe, which may follow no pointer. */
INLINE void view_read(struct tcp_view *v, struct sock *sk)
{
	const struct tcp_sock *tp = (void *)sk;
	VIEW(v, sk, tp, BPF_CORE_READ);
}

/* The same socket, of which the hook knows that it is TCP's: a move, where bpf_skc_to_tcp_sock is a call. */
INLINE struct tcp_sock *tcp_of(struct sock *sk)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
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

INLINE void local_address(u8 *address, const struct sock_common *c)
{
	__builtin_memset(address, 0, 16);
	if (c->skc_family == AF_INET6)
		bpf_core_read(address, 16, &c->skc_v6_rcv_saddr.in6_u.u6_addr8);
	else
		*(__be32 *)address = c->skc_rcv_saddr;
}

#define S_IFMT	 0170000
#define S_IFSOCK 0140000

/* Nothing will be sent or come any more, and all that came was read, or dropped by close. */
INLINE bool socket_is_over(struct sock *sk)
{
	return sk->sk_shutdown == SHUTDOWN_BOTH &&
	       (u64)sk->sk_receive_queue.next == (u64)&sk->sk_receive_queue;
}

/* The socket that a descriptor of this process is; 0 if it is another file. */
INLINE struct sock *socket_at(u32 fd)
{
	struct fdtable *table = bpf_get_current_task_btf()->files->fdt;
	struct file **files = table->fd, *file = 0;
	if (fd >= table->max_fds || bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return 0;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* A socket of a traced service listens. */
INLINE void listener_note(const struct sock_common *c, const struct port_key *port,
			  const struct service *svc)
{
	struct listen_key k = {.port = *port};
	bpf_map_update_elem(&listeners, port, svc, BPF_ANY);
	if (!cfg_by_address)
		return;
	local_address(k.address, c);
	bpf_map_update_elem(&listening, &k, svc, BPF_ANY);
}

/* Its state, which accepted sockets get a copy of. */
INLINE void conn_listens(struct conn *c, const struct port_key *port, const struct service *svc)
{
	c->flags = C_LISTENER;
	c->service = svc->index;
	c->linking = svc->linking;
	c->netns = port->netns;
	c->local_port = port->port;
}

/*
 * The socket stopped listening. A service that is not known yet may take its port, so the entry goes. If another socket
 * of the same service listens there, the next scan restores it. With cfg_by_address, accepted sockets inherit nothing
 * from their listener and need the entry at once, so it stays.
 */
INLINE void listener_ends(const struct conn *c, const struct port_key *port)
{
	struct service *svc = cfg_by_address ? 0 : bpf_map_lookup_elem(&listeners, port);
	if (svc && svc->index == c->service)
		bpf_map_delete_elem(&listeners, port);
}

/* The service that listens where a connection was accepted; 0 if that is not traced. */
INLINE struct service *listener_of(const struct sock_common *c, const struct port_key *port)
{
	struct listen_key k = {.port = *port};
	struct service *svc = bpf_map_lookup_elem(&listeners, port);
	if (!svc || !cfg_by_address)
		return svc;
	local_address(k.address, c);
	svc = bpf_map_lookup_elem(&listening, &k);
	if (svc)
		return svc;
	__builtin_memset(k.address, 0, sizeof(k.address));
	return bpf_map_lookup_elem(&listening, &k);
}

/* C_TRUSTED, C_NEAR or 0: what is believed of who has the peer's address. */
INLINE u32 trust_of(const struct sock_common *c)
{
	struct prefix p = {.bits = 128};
	if (c->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&p.address, c, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		p.address[10] = p.address[11] = 0xff;
		*(__be32 *)&p.address[12] = c->skc_daddr;
	}
	u8 *trust = bpf_map_lookup_elem(&trusted, &p);
	if (!trust)
		return 0;
	return *trust == TARE_NEAR ? C_NEAR : C_TRUSTED;
}

INLINE void conn_addresses(struct conn *s, const struct sock_common *c)
{
	s->local_port = c->skc_num;
	s->remote_port = bpf_ntohs(c->skc_dport);
	s->family = c->skc_family;
	s->netns = c->skc_net.net->ns.inum;
	local_address(s->local, c);
	__builtin_memset(s->remote, 0, sizeof(s->remote));
	if (c->skc_family == AF_INET6)
		BPF_CORE_READ_INTO(&s->remote, c, skc_v6_daddr.in6_u.u6_addr8);
	else
		*(__be32 *)s->remote = c->skc_daddr;
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
INLINE void conn_accepted(struct conn *c, const struct tcp_sock *tp, u32 trust,
			  enum opening opening)
{
	conn_addresses(c, common_of(tp));
	__builtin_memset(&c->server, 0, sizeof(c->server));
	__builtin_memset(&c->path, 0, sizeof(c->path));
	__builtin_memset(&c->tls, 0, sizeof(c->tls));
	__builtin_memset(&c->measured, 0, sizeof(c->measured));
	c->flags = C_SERVER | trust;
	c->opening = opening;
	c->tags = 0;
	c->streams.up = tp->rcv_nxt - (u32)tp->bytes_received;
	c->streams.down = tp->snd_una - (u32)tp->bytes_acked;
	c->rcv_seq = tp->copied_seq;
	c->server.sent_seq = tp->write_seq - 1; /* the first bytes begin a request */
	c->msg_end = tp->write_seq;
}

/* What a process sends and receives over MPTCP passes none of the hooks. So its subflows are not followed. */
__noinline int conn_ignored(struct conn *c)
{
	if (!c)
		return 0;
	c->flags = C_IGNORED; /* promises no tags */
	count(TARE_C_MPTCP);
	struct service_state *svc = service_of(c->service);
	if (!svc || svc->mptcp)
		return 1;
	svc->mptcp = 1;
	struct control_record r = {.type = TARE_MPTCP, .service = c->service};
	control_tell(&r);
	return 1;
}

INLINE bool conn_is_subflow(struct conn *c, const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp && conn_ignored(c);
}

/* A connection that a traced process opens, before it is established. */
INLINE void conn_connecting(struct conn *c)
{
	__builtin_memset(&c->client, 0, sizeof(c->client));
	__builtin_memset(&c->path, 0, sizeof(c->path));
	__builtin_memset(&c->tls, 0, sizeof(c->tls));
	__builtin_memset(&c->measured, 0, sizeof(c->measured));
	c->flags = C_CLIENT;
	c->opening = OPENING_NEW;
	c->tags = 0;
}

/* The connection is established. */
INLINE void conn_connected(struct conn *c, const struct tcp_sock *tp, u32 trust)
{
	conn_addresses(c, common_of(tp));
	c->flags |= C_CLIENT | C_STANDS | trust | (trust & C_TRUSTED ? C_MARK : 0);
	c->seeks = 0;
	c->streams.up = tp->snd_una - (u32)tp->bytes_acked + 1; /* its SYN was acknowledged */
	c->streams.down = tp->rcv_nxt - (u32)tp->bytes_received;
	c->rcv_seq = tp->copied_seq;
	c->msg_end = c->mark_seq = tp->write_seq;
}

#define DISARMED_AGAIN 100000000 /* ns: the control ring has other records, too */

static u64 disarmed_at;

/*
 * A connection that was armed is not any more: of several sock_ops programs, each may clear the flags
 * that another one has set. The agent sets them again; nothing here can.
 */
__noinline int conn_disarmed(struct conn *c)
{
	if (!c || c->flags & C_DISARMED)
		return 0;
	c->flags |= C_DISARMED;
	count(TARE_C_DISARMED);
	u64 now = bpf_ktime_get_ns();
	if (now - disarmed_at < DISARMED_AGAIN)
		return 0;
	disarmed_at = now;
	struct control_record r = {.type = TARE_DISARMED, .netns = c->netns};
	control_tell(&r);
	return 0;
}

#define MARK_ROOM (MARK_LEN + MARK_NAME)

/* A mark is to be written, in a segment from seq on. */
INLINE void conn_mark(struct conn *c, u32 seq)
{
	c->flags = (c->flags | C_MARK) & ~C_TOLD;
	c->path.told = 0;
	c->mark_seq = seq;
}

INLINE void conn_flip(struct conn *c, u32 seq)
{
	c->flags = (c->flags ^ C_SILENT) & ~C_FLIP;
	conn_mark(c, seq);
}

/* The peer has acknowledged the mark. */
INLINE void conn_marked(struct conn *c, u32 snd_una)
{
	bool told = c->flags & C_TOLD && before(c->mark_seq, snd_una);
	if (cfg_tag == TARE_TAG_IP)
		told = c->path.told && before(c->path.seq, snd_una);
	if (c->flags & C_MARK && told)
		c->flags &= ~(C_MARK | C_TOLD);
}

/* TARE_TAG_IP: what became of the last mark or probe, and what came back; the socket is locked. */
__noinline int conn_settle(struct conn *c, u32 snd_una)
{
	if (!c)
		return 0;
	bool arrived = c->path.told && before(c->path.seq, snd_una);
	if (c->path.answered) {
		c->path.answered = 0;
		c->flags |= C_PEER_TRACED | C_ANSWERED;
		if (c->path.carries == PATH_PROBED)
			c->path.carries = PATH_GOOD;
	}
	if (arrived && c->flags & C_SERVER && c->flags & C_MARK)
		path_passes(c);
	conn_marked(c, snd_una);
	return arrived;
}

/* ---- tags that came ---- */

/* The peer promises tags (mark): its requests without one are not sampled. */
INLINE void conn_promised(struct conn *c)
{
	c->flags = (c->flags | C_PEER_TRACED) & ~C_BEHIND;
}

/* The peer withdraws its promise (longer mark): the service of that name cannot link what it sends. */
INLINE void conn_behind(struct conn *c, const u8 *name)
{
	c->flags = (c->flags | C_BEHIND) & ~C_PEER_TRACED;
	__builtin_memcpy(c->server.behind, name, MARK_NAME);
}

/* Whether a tag that was read begins a request with records: of retro requests, where such are kept. */
INLINE bool tag_counts(enum tag_result r, const struct tag_context *ctx)
{
	return r == TAG_OK || (cfg_retro && r == TAG_UNSAMPLED && ctx->flags & TAG_RETRO);
}

/* The length of a tag that was made, as every verifier understands it. */
#define TAG_BYTES(n) (AT_MOST((n) - 1, TAG_LEN_OFFSET - 1) + 1)

/* Does a request without a tag count as not sampled, because a trusted peer promised tags? */
INLINE bool conn_follows(const struct conn *c)
{
	const u32 both = C_PEER_TRACED | C_TRUSTED;
	return (c->flags & both) == both;
}

/* A traceparent of the connection's requests counts where no tag does. */
INLINE bool may_adopt(const struct conn *c)
{
	return cfg_payload && cfg_traceparent && c->flags & C_SERVER && c->flags & C_TRUSTED;
}

/* Of two tags for one position the last one holds: what came first was sent again, by another. */
INLINE void rx_push(struct conn *c, const struct tag_context *ctx, u32 start)
{
	for (int i = 0; i < TAGS; i++) {
		struct rx_tag *t = &c->server.rx[i];
		if (i >= c->tags || (t->ctx.span != ctx->span && t->start != start))
			continue;
		t->ctx = *ctx;
		if (before(start, t->start))
			t->start = start;
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

/* The tag of the stream whose HEADERS are at a position, or -1. */
__noinline int rx_find(struct conn *c, u32 at)
{
	if (!c)
		return -1;
	for (int i = 0; i < TAGS; i++)
		if (i < c->tags && c->server.rx[i].start == at)
			return i;
	return -1;
}

/* What was read up to a position held no HEADERS for these. */
__noinline int rx_passed(struct conn *c, u32 to)
{
	if (!c)
		return 0;
	for (int i = TAGS - 1; i >= 0; i--)
		if (i < c->tags && before(c->server.rx[i].start, to)) {
			count(TARE_C_TAG_STALE);
			rx_remove(c, i);
		}
	return 0;
}

/* ---- tags to be sent ---- */

INLINE void tx_remove(struct conn *c, u32 i)
{
	u32 last = (c->tags - 1) & (TAGS - 1);
	u32 written = c->client.tx[i & (TAGS - 1)].written;
	if (!written)
		count(TARE_C_TAG_NO_ROOM);
	else if (cfg_tag == TARE_TAG_IP && written <= TX_MOST)
		path_arrived(c);
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

/* How many requests with a tag begin in a segment of so many bytes; named: their streams are. */
__noinline int tx_within(struct conn *c, u32 seq, u32 size, u32 named)
{
	int n = 0;
	if (!c)
		return 0;
	for (int i = 0; i < TAGS; i++) {
		if (i >= c->tags || c->client.tx[i].start - seq >= size)
			continue;
		if (cfg_retro && c->client.tx[i].ctx.flags)
			continue; /* its stream is not named */
		c->client.tx[i].written |= named;
		n++;
	}
	return n;
}

/* A segment has room for one tag: that of a retro request gives way to another's. */
INLINE bool tx_gives_way(const struct conn *c, u32 i, u32 seq, u32 size)
{
	if (!cfg_retro || c->client.tx[i & (TAGS - 1)].ctx.flags != TAG_RETRO)
		return false;
	for (u32 k = 0; k < TAGS; k++)
		if (k < c->tags && !c->client.tx[k].ctx.flags && c->client.tx[k].start - seq < size)
			return true;
	return false;
}

/* Segments that are to be sent may have to name streams; streams.bpf.h. */
INLINE bool streams_wait(const struct conn *c, u32 snd_una)
{
	return c->flags & C_HTTP2 && c->http2.asked && !before(c->http2.asked_seq, snd_una);
}

/* Returns whether it will be written. */
INLINE bool tx_push(struct conn *c, const struct context *ctx, u32 start, u32 snd_una)
{
	if (c->tags)
		tx_prune(c, snd_una);
	u32 i = 0;
	while (i < TAGS && i < c->tags && c->client.tx[i].start != start)
		i++;
	if (cfg_retro && i >= TAGS && !is_retro(ctx->span)) {
		i = 0;
		while (i < TAGS && c->client.tx[i].ctx.flags != TAG_RETRO)
			i++;
		if (i < TAGS && !c->client.tx[i].written)
			count(TARE_C_TAG_QUEUE_FULL);
	}
	if (i >= TAGS) {
		if (!streams_wait(c, snd_una)) /* else a segment names the stream */
			count(TARE_C_TAG_QUEUE_FULL);
		return false;
	}
	struct tx_tag *t = &c->client.tx[i & (TAGS - 1)];
	t->ctx.hi = ctx->hi;
	t->ctx.lo = ctx->lo;
	t->ctx.span = ctx->span;
	t->ctx.flags = is_retro(ctx->span) ? TAG_RETRO : 0;
	t->start = start;
	t->written = 0;
	if (i == c->tags)
		c->tags = i + 1;
	return true;
}

#endif
