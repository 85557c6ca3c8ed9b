//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TARE_TAG_IP: tags and marks in IP headers; tag.h has the bytes, path.bpf.h where they may go.
 *
 *	egress   at every device of the network namespaces of traced processes: where a packet of a
 *		 connection first leaves. Later devices find its header longer, and leave it
 *	ingress  at the cgroup root, before the segment is put in its socket's queue
 *
 * Both hooks are called for packets, not for sockets. A packet usually leaves with its socket locked,
 * but one that waited for a neighbour's address does not, and none comes in so: what these programs
 * tell a connection are single bytes and words of it, and notes in its inbox.
 *
 * Only segments with data have options: what carries none is not sent again if it is dropped, so
 * that nobody would learn of it.
 */

#define ETH_P_IP	0x0800
#define ETH_P_IPV6	0x86dd
#define IPPROTO_DSTOPTS 60
#define IP_HEADER	20
#define IP6_HEADER	40
#define TCP_HEADER	20
#define PASS		(-1) /* TCX_NEXT: to the next program of the device */

/* Between 1 and IP_ROOM, as every verifier understands it. */
#define BYTES_OF_OPTIONS(n) (AT_MOST((n) - 1, IP_ROOM - 1) + 1)

struct segment {
	u32 seq;
	u32 ack;    /* acknowledgement number */
	u32 size;   /* bytes of data */
	u32 header; /* of TCP */
};

INLINE void segment_read(struct segment *s, const u8 *tcp, u32 size)
{
	s->seq = (u32)tcp[4] << 24 | (u32)tcp[5] << 16 | (u32)tcp[6] << 8 | tcp[7];
	s->ack = (u32)tcp[8] << 24 | (u32)tcp[9] << 16 | (u32)tcp[10] << 8 | tcp[11];
	s->header = (tcp[12] >> 4) * 4;
	s->size = size > s->header ? size - s->header : 0;
}

INLINE bool segment_has(const struct segment *s, u32 seq)
{
	return seq - s->seq < s->size;
}

/* ---- out ---- */

/* A header without options, of TCP, with room for them. Its length; 0: it is another. */
INLINE u32 plain_header(struct __sk_buff *skb, u8 *ip, struct segment *s)
{
	u8 tcp[TCP_HEADER];
	u32 len, total;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		len = IP_HEADER;
		if (bpf_skb_load_bytes_relative(skb, 0, ip, IP_HEADER, BPF_HDR_START_NET))
			return 0;
		total = (u32)ip[2] << 8 | ip[3];
		if (ip[0] != 0x45 || ip[9] != IPPROTO_TCP || ip[6] & 0x3f || ip[7] || total < len)
			return 0;
		total -= len;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		len = IP6_HEADER;
		if (bpf_skb_load_bytes_relative(skb, 0, ip, IP6_HEADER, BPF_HDR_START_NET))
			return 0;
		total = (u32)ip[4] << 8 | ip[5];
		if (ip[0] >> 4 != 6 || ip[6] != IPPROTO_TCP)
			return 0;
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes_relative(skb, len, tcp, TCP_HEADER, BPF_HDR_START_NET))
		return 0;
	segment_read(s, tcp, total);
	return total + len + IP_ROOM <= 0xffff ? len : 0;
}

/* The bytes for an option: a tag, a mark or both. */
INLINE u32 outgoing(struct ip_area *a, u32 at, const struct conn *c, const struct tx_tag *tag,
		    u32 offset, bool mark)
{
	u32 size = 0;
	if (tag) {
		struct tag_option o = {};
		size = tag_encode(&o, &tag->ctx, offset);
		size = size ? TAG_BYTES(size) : 0;
		__builtin_memcpy(a->bytes + at, &o, sizeof(o));
	}
	if (!mark)
		return size;
	bool behind = !tag && c->flags & C_CLIENT && c->flags & C_SILENT;
	struct service_state *svc = behind ? service_of(c->service) : 0;
	u8 *m = a->bytes + at + size;
	m[0] = MARK_KIND;
	m[1] = svc ? MARK_ROOM : MARK_LEN;
	m[2] = MARK_ID_0;
	m[3] = MARK_ID_1;
	if (svc)
		__builtin_memcpy(a->bytes + at + MARK_LEN, svc->name, MARK_NAME);
	return size + m[1];
}

INLINE u32 fold(s64 sum)
{
	u64 s = (u64)sum & 0xffffffff;
	s = (s & 0xffff) + (s >> 16);
	return (s & 0xffff) + (s >> 16);
}

/* Whether a packet may grow: what a segment's size was settled by is the path's MTU, too. */
INLINE bool has_room(const struct __sk_buff *skb, const struct tcp_sock *tp,
		     const struct segment *s, u32 more)
{
	u32 most = tp->mss_cache + tp->tcp_header_len - s->header;
	if (skb->gso_size) /* segments of a large packet become smaller */
		return skb->gso_size > 2 * more && skb->gso_size <= most;
	return s->size + more <= most;
}

/* Puts len bytes of options behind the header. */
INLINE bool insert(struct __sk_buff *skb, u8 *ip, u32 header, struct ip_area *a, u64 len)
{
	bool v6 = header == IP6_HEADER;
	len = BYTES_OF_OPTIONS(len);
	if (bpf_skb_adjust_room(skb, len, BPF_ADJ_ROOM_NET, 0))
		return false;
	if (v6) {
		u32 total = ((u32)ip[4] << 8 | ip[5]) + len;
		ip[4] = total >> 8;
		ip[5] = total;
		ip[6] = IPPROTO_DSTOPTS;
	} else {
		u32 total = ((u32)ip[2] << 8 | ip[3]) + len;
		ip[0] = 0x45 + len / 4;
		ip[2] = total >> 8;
		ip[3] = total;
		ip[10] = ip[11] = 0;
		s64 sum = bpf_csum_diff(0, 0, (void *)ip, IP_HEADER, 0);
		sum = bpf_csum_diff(0, 0, (void *)a->bytes, len, sum);
		u16 check = ~fold(sum);
		__builtin_memcpy(ip + 10, &check, sizeof(check));
	}
	struct sk_buff *k = (void *)skb;
	u32 net =
	    BPF_CORE_READ(k, head) + BPF_CORE_READ(k, network_header) - BPF_CORE_READ(k, data);
	bpf_skb_store_bytes(skb, net, ip, v6 ? IP6_HEADER : IP_HEADER, 0);
	bpf_skb_store_bytes(skb, net + header, a->bytes, len, 0);
	return true;
}

/* The tag of a request that begins in a segment; TAGS: none. */
INLINE u32 tag_in(const struct conn *c, const struct segment *s)
{
	for (u32 i = 0; i < TAGS; i++) {
		u32 offset = c->client.tx[i].start - s->seq;
		if (i < c->tags && offset < s->size && offset <= TAG_MAX_OFFSET)
			return i;
	}
	return TAGS;
}

/* A segment is sent again. Returns whether with its tag. */
INLINE bool again(struct conn *c, const struct segment *s, struct tx_tag *tag)
{
	bool good = c->path.carries == PATH_GOOD && path_is_good(c);
	if (c->path.told && segment_has(s, c->path.seq)) {
		c->path.told = 0; /* a mark goes with later data */
		if (!tag || !good)
			path_lost(c);
	}
	if (!tag)
		return false;
	if (good && tag->written < TX_MOST)
		return true;
	/* Another mark may be due since the probe was sent: its tag still tells of it. */
	bool probe = c->path.carries == PATH_PROBED && tag->written == 1;
	if (probe || (good && tag->written == TX_MOST))
		path_lost(c);
	if (tag->written != TX_NEVER)
		count(TARE_C_TAG_NO_PATH);
	tag->written = TX_NEVER;
	return false;
}

SEC("tcx/egress")
int tare_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return PASS;
	sk = bpf_sk_fullsock(sk);
	struct conn *c = sk ? conn_find(sk) : 0;
	if (!c || !c->path.carries || !(c->flags & C_TRUSTED))
		return PASS;
	bool client = c->flags & C_CLIENT;
	if (!(c->flags & C_MARK) && !(client && c->tags) && c->path.carries != PATH_PROBED)
		return PASS;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u8 ip[IP6_HEADER] = {};
	struct segment s = {};
	u32 header = tp ? plain_header(skb, ip, &s) : 0;
	if (!header || !s.size || before(s.seq, tp->snd_una) || before(tp->snd_nxt, s.seq))
		return PASS; /* or around a packet of the connection's */

	struct tx_tag *tag = 0;
	u32 i = client && c->tags ? tag_in(c, &s) : TAGS, offset = 0;
	if (i < TAGS) {
		tag = &c->client.tx[i & (TAGS - 1)];
		offset = tag->start - s.seq;
	}
	bool mark = c->flags & C_MARK && !c->path.told, resent = before(s.seq, tp->snd_nxt);
	if (resent && !again(c, &s, tag))
		return PASS;
	if (resent)
		mark = false;
	else if (c->path.carries == PATH_PROBED && c->path.told)
		return PASS;
	if (!tag && !mark)
		return PASS;

	struct ip_area area = {};
	bool v6 = header == IP6_HEADER;
	u32 size = v6 ? outgoing(&area, IP_DATA(1), c, tag, offset, mark)
		      : outgoing(&area, IP_DATA(0), c, tag, offset, mark);
	u32 len = ip_write(&area, size, v6, IPPROTO_TCP);
	if (!has_room(skb, tp, &s, len) || !insert(skb, ip, header, &area, len))
		return PASS;
	if (mark || c->path.carries == PATH_PROBED) {
		c->path.seq = s.seq;
		c->path.told = 1;
	}
	if (tag) {
		tag->written++;
		count(TARE_C_TAG_SENT);
	}
	return PASS;
}

/* ---- in ---- */

/* What the options of a segment said to its connection, whose socket may be in use elsewhere. */
INLINE void came(struct conn *c, const struct tcp_sock *tp, const struct ip_said *said,
		 const struct segment *s)
{
	if (!s->size || !(said->tag | said->mark))
		return;
	if (!(c->flags & C_TRUSTED)) {
		if (said->tag)
			count(TARE_C_TAG_UNTRUSTED);
		return;
	}
	u32 copied = tp->copied_seq; /* TCP has not looked at the segment yet */
	if (before(s->seq + s->size, copied) || before(tp->rcv_nxt + tp->rcv_wnd, s->seq))
		return;
	if (said->tag == 1 + TAG_MALFORMED) {
		count(TARE_C_TAG_MALFORMED);
	} else if (c->flags & C_SERVER) {
		inbox_came(c, said, s->seq, copied);
	} else if (c->flags & C_CLIENT && said->mark) {
		c->path.answered = 1;
		path_passes(c);
	}
}

__noinline int read_area(const struct ip_area *a, u32 size, u32 v6, struct ip_said *said)
{
	if (!a || !said)
		return 0;
	ip_read(a, size, v6, said);
	return 0;
}

/* Where options lie in an IP header, and the TCP header behind them. */
struct layout {
	u32 options, size, tcp;
	u32 length; /* of the packet */
};

/* ip: the first 42 bytes. False: no options, or none that are looked at. */
INLINE bool lay_out(struct layout *l, const u8 *ip)
{
	if (ip[0] >> 4 == 4) {
		l->options = IP_HEADER;
		l->tcp = (ip[0] & 15) * 4;
		l->length = (u32)ip[2] << 8 | ip[3];
		if (l->tcp <= IP_HEADER || ip[9] != IPPROTO_TCP)
			return false;
	} else {
		l->options = IP6_HEADER;
		l->tcp = IP6_HEADER + (ip[41] + 1) * 8;
		l->length = IP6_HEADER + ((u32)ip[4] << 8 | ip[5]);
		if (ip[0] >> 4 != 6 || ip[6] != IPPROTO_DSTOPTS || ip[40] != IPPROTO_TCP)
			return false;
	}
	l->size = l->tcp - l->options;
	if (l->size > IP_ROOM)
		l->size = IP_ROOM;
	return l->length > l->tcp;
}

SEC("cgroup_skb/ingress")
int tare_ingress(struct __sk_buff *skb)
{
	const u8 *ip = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct layout l = {};
	if (ip + 42 > end || ip[0] == 0x45 || !lay_out(&l, ip))
		return 1;
	struct bpf_sock *sk = skb->sk;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	struct conn *c = sk ? conn_find(sk) : 0;
	struct tcp_sock *tp =
	    c && c->flags & (C_SERVER | C_CLIENT | C_LISTENER) ? bpf_skc_to_tcp_sock(sk) : 0;
	if (!tp)
		return 1;
	struct ip_area area = {};
	struct ip_said said;
	struct segment s;
	u8 tcp[TCP_HEADER];
	u64 size = BYTES_OF_OPTIONS(l.size);
	if (bpf_skb_load_bytes(skb, l.options, area.bytes, size) ||
	    bpf_skb_load_bytes(skb, l.tcp, tcp, TCP_HEADER))
		return 1;
	__builtin_memset(&said, 0, sizeof(said));
	read_area(&area, size, l.options == IP6_HEADER, &said);
	segment_read(&s, tcp, l.length - l.tcp);
	/* on another CPU the handshake may be about to be completed: c may be the listener's copy */
	if (sk->state != TCP_SYN_RECV) {
		came(c, tp, &said, &s);
	} else if (s.size && said.tag | said.mark) {
		struct streams of = {.up = s.seq, .down = s.ack};
		early_came(&of, &said);
	}
	return 1;
}

/* The segment that completes the handshake came in when its connection was not there yet. */
INLINE void ip_passive(struct bpf_sock_ops *o)
{
	struct bpf_sock *sk = o->sk;
	struct bpf_sock_ops_kern *k = (void *)o;
	struct conn *c = sk ? conn_find(sk) : 0;
	struct tcp_sock *tp = c ? bpf_skc_to_tcp_sock(sk) : 0;
	struct sk_buff *skb = BPF_CORE_READ(k, skb);
	if (!tp || !skb)
		return;
	const u8 *at = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);
	u8 ip[44], tcp[TCP_HEADER];
	struct layout l = {};
	if (bpf_probe_read_kernel(ip, sizeof(ip), at) || ip[0] == 0x45 || !lay_out(&l, ip))
		return;
	struct ip_area area = {};
	struct ip_said said;
	struct segment s;
	u64 size = BYTES_OF_OPTIONS(l.size);
	if (bpf_probe_read_kernel(area.bytes, size, at + l.options) ||
	    bpf_probe_read_kernel(tcp, sizeof(tcp), at + l.tcp))
		return;
	__builtin_memset(&said, 0, sizeof(said));
	read_area(&area, size, l.options == IP6_HEADER, &said);
	segment_read(&s, tcp, l.length - l.tcp);
	came(c, tp, &said, &s);
}
