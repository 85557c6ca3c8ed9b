//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measures every request, sampled or not: how many, how they ended, how long they took, by service
 * and by edge. Nothing leaves the kernel but sums, which the agent reads when somebody asks for its
 * metrics. Programs of their own beside those that trace, on the same hooks: where nothing is
 * measured they are not attached and cost nothing.
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

struct head {
	u8 bytes[12];
	enum payload_kind kind;
};

/* False: not to be read (payload off, splice, io_uring). */
INLINE bool read_head(struct head *h, struct bytes b)
{
	u32 len = b.len < sizeof(h->bytes) ? b.len : sizeof(h->bytes);
	__builtin_memset(h, 0, sizeof(*h));
	if (!cfg_payload || !b.data || !len || bpf_probe_read_user(h->bytes, len, b.data))
		return false;
	h->kind = payload_kind(h->bytes, len);
	return true;
}

/*
 * Bytes of a client while nothing is asked. fresh: the first since something came back, which
 * matters only over TLS, whose handshake may end with a message of the client's.
 */
INLINE void measure_request(struct socket_state *s, struct bytes b, bool fresh)
{
	struct head h;
	u8 protocol = TARE_PROTOCOL_TCP;
	if (!read_head(&h, b)) {
		protocol = s->protocol;
	} else if (h.kind == PAYLOAD_TLS_HANDSHAKE) {
		s->protocol = TARE_PROTOCOL_TLS;
		return;
	} else if (s->protocol == TARE_PROTOCOL_TLS) {
		if (!fresh || h.kind != PAYLOAD_TLS_DATA)
			return;
		protocol = TARE_PROTOCOL_TLS;
	} else if (h.kind == PAYLOAD_HTTP_REQUEST) {
		protocol = TARE_PROTOCOL_HTTP;
	} else if (s->protocol == TARE_PROTOCOL_HTTP) {
		if (h.kind != PAYLOAD_HTTP_PIECE)
			return; /* the rest of a body whose response began early */
		protocol = TARE_PROTOCOL_HTTP;
	} else if (h.kind == PAYLOAD_TLS_DATA) {
		protocol = TARE_PROTOCOL_TLS;
	} else if (payload_is_redis(h.bytes)) {
		protocol = TARE_PROTOCOL_REDIS;
	} else if (payload_is_memcached(h.bytes)) {
		protocol = TARE_PROTOCOL_MEMCACHED;
	}
	s->protocol = protocol;
	s->asking = 1;
	s->asked = bpf_ktime_get_ns();
}

/* Bytes of a server. seq: where they stand in what it sends; a connected socket does not know. */
INLINE void measure_response(struct sock *sk, struct socket_state *s, u32 role, struct bytes b,
			     u32 seq)
{
	struct head h;
	u32 outcome = TARE_OUTCOME_ANSWERED;
	read_head(&h, b);
	if (h.kind == PAYLOAD_HTTP_INTERIM)
		return;
	if (!s->asking) { /* a further response: that of a pipelined request */
		if (h.kind != PAYLOAD_HTTP_RESPONSE || seq == s->answer_seq)
			return; /* or the same again: there was no room for it to be sent */
	}
	if (h.kind == PAYLOAD_HTTP_RESPONSE) {
		s->protocol = TARE_PROTOCOL_HTTP; /* its request may have come in pieces */
		outcome = payload_status_class(h.bytes);
	} else if (s->protocol == TARE_PROTOCOL_REDIS) {
		outcome = payload_is_redis_error(h.bytes) ? TARE_OUTCOME_ERROR : outcome;
	} else if (s->protocol == TARE_PROTOCOL_MEMCACHED) {
		outcome = payload_is_memcached_error(h.bytes) ? TARE_OUTCOME_ERROR : outcome;
	}
	u64 now = bpf_ktime_get_ns();
	measure_end(sk, s, role, outcome, now - s->asked);
	s->asking = 0;
	s->asked = now;
	s->answer_seq = seq;
}

/* Attached before the tracing program, which notes what it has seen in rcv_seq and snd_seq. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tare_measure_recv, struct sock *sk)
{
	struct socket_state *s = socket_state(sk);
	if (!s || !sk->sk_lock.owned)
		return 0;
	bool server = s->flags & S_SERVER;
	if (!(s->flags & (S_SERVER | S_CLIENT)) || server == s->asking)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !before(s->rcv_seq, tp->copied_seq))
		return 0;
	struct bytes b = received_bytes(tp->copied_seq - s->rcv_seq);
	if (server)
		measure_request(s, b, tp->write_seq != s->snd_seq);
	else
		measure_response(sk, s, TARE_CLIENT, b, 0);
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tare_measure_send, struct sock *sk, const struct msghdr *msg)
{
	struct socket_state *s = socket_state(sk);
	if (!s)
		return 0;
	if (s->flags & S_CLIENT) {
		if (!s->asking)
			measure_request(s, sent_bytes(msg), true);
		return 0;
	}
	if (!(s->flags & S_SERVER))
		return 0;
	if (!s->asking && (s->protocol != TARE_PROTOCOL_HTTP || !s->asked))
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		measure_response(sk, s, TARE_SERVER, sent_bytes(msg), tp->write_seq);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tare_measure_destroy, struct sock *sk)
{
	struct socket_state *s = socket_state(sk);
	if (!s || !s->asking)
		return 0;
	s->asking = 0;
	measure_end(sk, s, s->flags & S_SERVER ? TARE_SERVER : TARE_CLIENT,
		    sk->sk_err ? TARE_OUTCOME_RESET : TARE_OUTCOME_NO_RESPONSE,
		    bpf_ktime_get_ns() - s->asked);
	return 0;
}
