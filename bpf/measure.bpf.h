/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What measure.bpf.c adds up: a histogram of durations for each service and each edge.
 */
#ifndef TARE_MEASURE_H
#define TARE_MEASURE_H

#define MEASURES 2048 /* services and edges, by protocol and outcome; 1 where nothing is measured */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MEASURES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct measure_key);
	__type(value, struct measure);
} measures SEC(".maps");

/* What found no room in measures, by role and outcome: counted, without its edge. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * TARE_OUTCOMES);
	__type(key, u32);
	__type(value, struct measure);
} measures_other SEC(".maps");

/* A new entry is copied from here: it is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct measure);
} measure_zero SEC(".maps");

INLINE bool is_loopback(const struct measure_key *k)
{
	if (k->family == AF_INET)
		return k->address[0] == 127;
	const __be32 *a = (const void *)k->address; /* ::1, ::ffff:127.0.0.0/104 */
	u32 last = bpf_ntohl(a[3]);
	return !(a[0] | a[1]) &&
	       ((!a[2] && last == 1) || (a[2] == bpf_htonl(0xffff) && last >> 24 == 127));
}

INLINE void measure_peer(struct measure_key *k, struct sock *sk)
{
	const struct sock_common *c = &sk->__sk_common;
	k->family = c->skc_family;
	k->port = bpf_ntohs(c->skc_dport);
	if (c->skc_family == AF_INET6)
		BPF_CORE_READ_INTO(&k->address, c, skc_v6_daddr.in6_u.u6_addr8);
	else
		*(__be32 *)k->address = c->skc_daddr;
	if (is_loopback(k))
		k->netns = c->skc_net.net->ns.inum;
}

INLINE void measure_add(struct measure *m, u64 ns)
{
	u32 i = bucket_of(ns);
	if (i < BUCKETS) {
		/* this CPU's; but a socket may end in an interrupt, and none may be lost */
		__sync_fetch_and_add(&m->bucket[i], 1);
		__sync_fetch_and_add(&m->sum, ns);
	}
}

INLINE void measure_end(struct sock *sk, struct socket_state *s, u32 role, u32 outcome, u64 ns)
{
	struct measure_key k = {.role = role, .outcome = outcome};
	k.service = s->service;
	k.protocol = s->protocol;
	if (role == TARE_CLIENT)
		measure_peer(&k, sk);
	struct measure *m = bpf_map_lookup_elem(&measures, &k);
	if (!m) {
		u32 zero = 0, other = (role == TARE_CLIENT ? TARE_OUTCOMES : 0) + outcome;
		struct measure *fresh = bpf_map_lookup_elem(&measure_zero, &zero);
		if (fresh)
			bpf_map_update_elem(&measures, &k, fresh, BPF_NOEXIST);
		m = bpf_map_lookup_elem(&measures, &k);
		if (!m) {
			count(TARE_C_METRICS_FULL);
			m = bpf_map_lookup_elem(&measures_other, &other);
		}
	}
	if (m)
		measure_add(m, ns);
}

INLINE void measure_reset(struct socket_state *s)
{
	s->asked = 0;
	s->asking = s->protocol = 0;
}

#endif
