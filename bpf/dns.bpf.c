//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of look-ups: dns.bpf.h.
 */

/* Linux 6.11. Egress runs where a thread may lose its CPU to another's send, whose scratch it shares. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* A process connects by UDP, or sends without: to port 53, it looks a name up. */
INLINE int resolves(struct bpf_sock_addr *a)
{
	u32 tgid;
	bool asks = a->user_port == bpf_htons(DNS_PORT);
	if (a->protocol != IPPROTO_UDP || !(asks || turns))
		return 1;
	struct service *svc = service_here(&tgid);
	if (!svc)
		return 1;
	worker_may_turn(svc);
	if (!asks)
		return 1;
	lookups_wanted(tgid);
	if (!lookups_watched)
		service_not_linked(svc->index, TARE_UNLINKED_UNWATCHED);
	return 1;
}

#define RESOLVES(hook)                                                                             \
	SEC("cgroup/" #hook)                                                                       \
	int tare_##hook(struct bpf_sock_addr *a)                                                   \
	{                                                                                          \
		return resolves(a);                                                                \
	}

RESOLVES(connect4)
RESOLVES(connect6)
RESOLVES(sendmsg4)
RESOLVES(sendmsg6)

/* What there is of a packet, if it is a whole datagram; false: it is another. */
INLINE bool datagram(struct __sk_buff *skb, struct datagram *d)
{
	u8 *ip = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	u8 head[UDP_HEADER + DNS_HEADER];
	u32 at;
	if (ip + IP_HEADER + UDP_HEADER > end)
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (ip[9] != IPPROTO_UDP || ip[0] != 0x45 || ip[6] & 0x3f || ip[7])
			return false;
		at = IP_HEADER;
	} else {
		if (ip[6] != IPPROTO_UDP || skb->protocol != bpf_htons(ETH_P_IPV6))
			return false;
		at = IP6_HEADER;
	}
	if (bpf_skb_load_bytes_relative(skb, at, head, sizeof(head), BPF_HDR_START_NET))
		return false;
	d->from = (u16)head[0] << 8 | head[1];
	d->to = (u16)head[2] << 8 | head[3];
	d->size = ((u32)head[4] << 8 | head[5]) - UDP_HEADER;
	d->at = at + UDP_HEADER;
	__builtin_memcpy(d->head, head + UDP_HEADER, DNS_HEADER);
	return true;
}

/* Who talks to whom. */
INLINE bool datagram_addresses(struct __sk_buff *skb, const struct datagram *d, struct conn *c)
{
	u8 ip[IP6_HEADER];
	c->local_port = d->from;
	c->remote_port = d->to;
	if (bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), BPF_HDR_START_NET))
		return false;
	if (d->at == IP_HEADER + UDP_HEADER) {
		c->family = AF_INET;
		__builtin_memcpy(c->local, ip + 12, 4);
		__builtin_memcpy(c->remote, ip + 16, 4);
	} else {
		c->family = AF_INET6;
		__builtin_memcpy(c->local, ip + 8, 16);
		__builtin_memcpy(c->remote, ip + 24, 16);
	}
	return true;
}

/* How many bytes of a payload a record has room for. */
INLINE u64 bytes_of_payload(const struct datagram *d, u32 room)
{
	u64 len = d->size;
	return cfg_payload ? AT_MOST(len, room) : 0;
}

INLINE void write_query(struct start_record *e, struct __sk_buff *skb, const struct datagram *d,
			const struct conn *c, const struct start *a)
{
	u64 len = bytes_of_payload(d, TARE_PAYLOAD_START);
	fill_start(e, c, a);
	e->transport = TARE_OVER_UDP;
	if (len && !bpf_skb_load_bytes_relative(skb, d->at, e->payload, len, BPF_HDR_START_NET))
		e->payload_len = len;
}

INLINE void write_answer(struct data_record *e, struct __sk_buff *skb, const struct datagram *d,
			 const struct more *m)
{
	u64 len = bytes_of_payload(d, TARE_PAYLOAD_DATA);
	fill_data(e, m);
	e->payload_len = 0;
	if (len && !bpf_skb_load_bytes_relative(skb, d->at, e->payload, len, BPF_HDR_START_NET))
		e->payload_len = len;
}

INLINE void query_sent(struct __sk_buff *skb, const struct datagram *d, const struct service *svc)
{
	struct bpf_sock *sk = skb->sk ? bpf_sk_fullsock(skb->sk) : 0;
	struct conn *c = sk ? conn_create(sk) : 0;
	if (!c || !datagram_addresses(skb, d, c))
		return;
	c->flags = C_CLIENT;
	c->service = svc->index;
	c->linking = svc->linking;
	u32 in_epoll = 0;
	if (guarded(c)) {
		struct sk_buff *k = (void *)skb;
		in_epoll = BPF_CORE_READ(k, sk, sk_socket, file, f_ep, first) != 0;
	}
	struct lookup_key key = lookup_key_of(skb, d);
	struct start *a = lookup_asked(c, &key, d->size, in_epoll);
	struct start_record *e;
	if (a)
		RECORD(a->ctx.span, e, sizeof(*e), write_query(e, skb, d, c, a));
}

SEC("cgroup_skb/egress")
int tare_asks_name(struct __sk_buff *skb)
{
	struct datagram d;
	u32 tgid;
	if (!datagram(skb, &d) || !(is_query(&d) || is_quic(&d)))
		return 1;
	struct service *svc = service_here(&tgid);
	if (!svc)
		return 1;
	if (d.to == QUIC_PORT) {
		service_not_linked(svc->index, TARE_UNLINKED_QUIC);
		return 1;
	}
	lookups_wanted(tgid);
	if (!any_in_flight())
		return 1;
	bpf_preempt_disable();
	query_sent(skb, &d, svc);
	bpf_preempt_enable();
	return 1;
}

SEC("cgroup_skb/ingress")
int tare_hears_name(struct __sk_buff *skb)
{
	struct datagram d;
	if (!datagram(skb, &d) || d.from != DNS_PORT || d.size < DNS_HEADER ||
	    !(d.head[2] & DNS_ANSWER))
		return 1;
	struct lookup_key key = lookup_key_of(skb, &d);
	struct lookup *l = bpf_map_lookup_elem(&lookups, &key);
	if (!l)
		return 1;
	struct more m = {.span = l->span, .direction = TARE_RECEIVED, .flags = TARE_D_FIRST};
	m.now = bpf_ktime_get_ns();
	m.b.size = d.size;
	bool forgotten = m.now - l->asked > DNS_FORGOTTEN;
	bpf_map_delete_elem(&lookups, &key); /* *l may be another's from here on */
	if (forgotten)
		return 1;
	struct data_record *e;
	RECORD(m.span, e, TARE_DATA_USUAL, write_answer(e, skb, &d, &m));
	emit_end(m.span, TARE_END_STREAM, 0);
	return 1;
}
