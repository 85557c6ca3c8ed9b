/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measures every request, sampled or not: how many, how they ended, how long they took, by service
 * and by edge, a histogram of durations for each. Nothing leaves the kernel but sums, which the
 * agent reads when somebody asks for its metrics. The hooks that trace call this behind the switch
 * cfg_measure: where nothing is measured it costs nothing.
 *
 *	accepted socket   received, while nothing is asked: a request begins
 *	                  sent, while one is: its response begins, it is measured
 *	connected socket  the same with sent and received exchanged
 *
 * A duration ends with the response's first byte, where a span's ends with its last: what comes
 * last is only known when the next request comes, and a count that lags behind is of no use.
 *
 * Pipelining: requests that were read together are told apart by their responses, in HTTP/1; each
 * but the first lasts from the response before it, as its span does. Elsewhere they count as one.
 * Over TLS a request is what follows a message of the server's; handshakes and alerts are none.
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

static const struct measure measure_empty;

INLINE void measure_peer(struct measure_key *k, const struct conn *c)
{
	k->family = c->family;
	k->port = c->remote_port;
	__builtin_memcpy(k->address, c->remote, sizeof(k->address));
	if (is_loopback(c->family, c->remote))
		k->netns = c->netns;
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

__noinline int measure_end(struct conn *c, u32 outcome, u64 ns)
{
	if (!c)
		return 0;
	u32 role = c->flags & C_SERVER ? TARE_SERVER : TARE_CLIENT;
	struct measure_key k = {.role = role, .outcome = outcome};
	k.service = c->service;
	k.protocol = c->measured.protocol;
	if (role == TARE_CLIENT)
		measure_peer(&k, c);
	struct measure *m = bpf_map_lookup_elem(&measures, &k);
	if (!m) {
		u32 other = (role == TARE_CLIENT ? TARE_OUTCOMES : 0) + outcome;
		bpf_map_update_elem(&measures, &k, &measure_empty, BPF_NOEXIST);
		m = bpf_map_lookup_elem(&measures, &k);
		if (!m) {
			count(TARE_C_METRICS_FULL);
			m = bpf_map_lookup_elem(&measures_other, &other);
		}
	}
	if (m)
		measure_add(m, ns);
	return 0;
}

struct head {
	u8 bytes[HEAD];
	int kind;
};

/* False: not to be read (payload off, splice, io_uring). */
INLINE bool measure_head(struct head *h, const struct bytes *b)
{
	u32 len = read_head(h->bytes, b);
	h->kind = len ? payload_kind(h->bytes, len) : PAYLOAD_OTHER;
	return len;
}

/*
 * Bytes of a client while nothing is asked. fresh: the first since something came back, which
 * matters only over TLS, whose handshake may end with a message of the client's.
 */
__noinline int measure_request(struct conn *c, const struct bytes *b, u32 fresh)
{
	struct head h;
	if (!c || !b)
		return 0;
	struct measured *m = &c->measured;
	u8 protocol = TARE_PROTOCOL_TCP;
	if (!measure_head(&h, b)) {
		protocol = m->protocol;
	} else if (h.kind == PAYLOAD_TLS_HANDSHAKE) {
		m->protocol = TARE_PROTOCOL_TLS;
		return 0;
	} else if (m->protocol == TARE_PROTOCOL_TLS) {
		if (!fresh || h.kind != PAYLOAD_TLS_DATA)
			return 0;
		protocol = TARE_PROTOCOL_TLS;
	} else if (h.kind == PAYLOAD_HTTP_REQUEST) {
		protocol = TARE_PROTOCOL_HTTP;
	} else if (m->protocol == TARE_PROTOCOL_HTTP) {
		if (h.kind != PAYLOAD_HTTP_PIECE)
			return 0; /* the rest of a body whose response began early */
		protocol = TARE_PROTOCOL_HTTP;
	} else if (h.kind == PAYLOAD_TLS_DATA) {
		protocol = TARE_PROTOCOL_TLS;
	} else if (payload_is_redis(h.bytes)) {
		protocol = TARE_PROTOCOL_REDIS;
	} else if (payload_is_memcached(h.bytes)) {
		protocol = TARE_PROTOCOL_MEMCACHED;
	}
	m->protocol = protocol;
	m->asking = 1;
	m->asked = bpf_ktime_get_ns();
	return 0;
}

/* Bytes of a server. seq: where they stand in what it sends; a connected socket does not know. */
__noinline int measure_response(struct conn *c, const struct bytes *b, u32 seq)
{
	struct head h;
	u32 outcome = TARE_OUTCOME_ANSWERED;
	if (!c || !b)
		return 0;
	struct measured *m = &c->measured;
	measure_head(&h, b);
	if (h.kind == PAYLOAD_HTTP_INTERIM)
		return 0;
	if (h.kind == PAYLOAD_HTTP_SWITCH)
		h.kind = PAYLOAD_HTTP_RESPONSE;
	if (!m->asking) { /* a further response: that of a pipelined request */
		if (h.kind != PAYLOAD_HTTP_RESPONSE || seq == m->answer_seq)
			return 0; /* or the same again: there was no room for it to be sent */
	}
	if (h.kind == PAYLOAD_HTTP_RESPONSE) {
		m->protocol = TARE_PROTOCOL_HTTP; /* its request may have come in pieces */
		outcome = payload_status_class(h.bytes);
	} else if (m->protocol == TARE_PROTOCOL_REDIS) {
		outcome = payload_is_redis_error(h.bytes) ? TARE_OUTCOME_ERROR : outcome;
	} else if (m->protocol == TARE_PROTOCOL_MEMCACHED) {
		outcome = payload_is_memcached_error(h.bytes) ? TARE_OUTCOME_ERROR : outcome;
	}
	u64 now = bpf_ktime_get_ns();
	measure_end(c, outcome, now - m->asked);
	m->asking = 0;
	m->asked = now;
	m->answer_seq = seq;
	return 0;
}

/* Called before the request is traced, which notes what was sent in sent_seq. */
INLINE void measure_received(struct conn *c, struct bytes b, u32 write_seq)
{
	bool server = c->flags & C_SERVER;
	if (!(c->flags & (C_SERVER | C_CLIENT)) || server == c->measured.asking)
		return;
	received_bytes(c, &b);
	if (server)
		measure_request(c, &b, write_seq != c->server.sent_seq);
	else
		measure_response(c, &b, 0);
}

INLINE void measure_sent(struct conn *c, struct bytes b, u32 write_seq)
{
	struct measured *m = &c->measured;
	if (c->flags & C_HTTP2)
		return;
	if (c->flags & C_CLIENT) {
		if (!m->asking)
			measure_request(c, &b, true);
	} else if (c->flags & C_SERVER &&
		   (m->asking || (m->protocol == TARE_PROTOCOL_HTTP && m->asked))) {
		measure_response(c, &b, write_seq);
	}
}

INLINE void measure_closed(struct conn *c, u32 error)
{
	struct measured *m = &c->measured;
	if (!m->asking)
		return;
	m->asking = 0;
	measure_end(c, error ? TARE_OUTCOME_RESET : TARE_OUTCOME_NO_RESPONSE,
		    bpf_ktime_get_ns() - m->asked);
}

#endif
