//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive hook: tcp_rcv_space_adjust fires once per copy to user space, in process context, with
 * the socket owned; splice included, MSG_PEEK too (copied_seq stands still then).
 *
 * An accepted socket goes through
 *
 *	           bytes, something was sent since the last ones: a new request
 *	idle ───────────────────────────────────────────────────────────────▶ reading
 *	  ▲   its tag begins here: sampled, child of the tag's span                │ bytes: more
 *	  │   no tag, peer traced: not sampled                                     │ of it
 *	  │   no tag, peer unknown: entry, the root decision                       ▼
 *	  └──────────────────────── responding ◀───────────────── response begins (send hook)
 *
 * An untagged, unsampled request costs two comparisons here and, at an entry, a random number.
 */

/* "HTTP/1.1 100 Continue\r\n\r\n": a send of this size does not end a request. */
#define INTERIM_SIZE 25

/* A request of which fewer bytes than this have been read has not said its name yet. */
#define PIECE 16

/* The request before is over. Returns its span, for which a START or an END must follow. */
INLINE u64 server_finish(struct socket_state *s)
{
	u64 ends = s->span;
	s->span = 0;
	if (s->ctx.span) { /* never answered, yet the next request began */
		if (ends)
			emit_end(ends, TARE_END_NEXT, 0);
		request_end(&s->ctx);
		ends = s->ctx.span;
		s->ctx.span = 0;
	}
	return ends;
}

/* How this service is linked; settled at the first receive. */
INLINE u8 server_linking(struct sock *sk, struct socket_state *s)
{
	const u32 nonblock = 04000; /* O_NONBLOCK */
	if (s->linking == TARE_LINK_AUTO) {
		struct socket *socket = sk->sk_socket;
		struct file *file = socket ? socket->file : 0;
		s->linking =
		    file && !(file->f_flags & nonblock) ? TARE_LINK_THREAD : TARE_LINK_NONE;
	}
	return s->linking;
}

INLINE void server_begin(struct sock *sk, struct socket_state *s, struct context *ctx, u64 parent,
			 u8 flags, u32 size, struct bytes b)
{
	u64 now = bpf_ktime_get_ns();
	u8 linking = server_linking(sk, s);
	ctx->span = random_id();
	if (!request_begin(ctx)) {
		thread_clear();
		return;
	}
	u64 ends = s->ends;
	s->ends = 0;
	s->got = size;
	s->ctx = *ctx;
	if (linking == TARE_LINK_NONE)
		flags |= TARE_F_UNLINKED;
	else if (linking != TARE_LINK_QUEUE)
		thread_set(ctx, linking == TARE_LINK_LOOP);
	if (emit_start(sk, s, TARE_SERVER, flags, ctx, parent, ends, now, size, b) ==
	    PAYLOAD_HTTP_REQUEST)
		s->flags |= S_HTTP;
}

/* The root decision, once per request. Fills in trace id and parent. */
INLINE bool decide_root(struct socket_state *s, u32 size, struct bytes *b, struct context *ctx,
			u64 *parent, u8 *flags)
{
	u64 threshold = sampling_threshold;
	if (!entry_enabled)
		return false;
	if (cfg_payload && cfg_traceparent && s->flags & S_TRUSTED) {
		struct payload_parent p = {};
		*b = received_bytes(size);
		if (find_traceparent(*b, &p)) {
			__builtin_memcpy(&ctx->hi, p.trace_id, 8);
			__builtin_memcpy(&ctx->lo, p.trace_id + 8, 8);
			__builtin_memcpy(parent, p.span_id, 8);
			*flags |= TARE_F_ADOPTED;
			count(TARE_C_ADOPTED);
			s->flags |= S_HTTP;
			if (cfg_parent_based)
				return p.sampled;
			return (bpf_be64_to_cpu(ctx->lo) & RANDOM_MASK) >= threshold;
		}
	}
	/* the upper half decides nearly always */
	u64 high = bpf_get_prandom_u32(), rv = high << 24 & RANDOM_MASK;
	if ((rv | 0xffffff) < threshold) {
		count(TARE_C_ROOTS_UNSAMPLED);
		return false;
	}
	u64 low = bpf_get_prandom_u32();
	rv |= low & 0xffffff;
	if (rv < threshold) {
		count(TARE_C_ROOTS_UNSAMPLED);
		return false;
	}
	*b = received_bytes(size);
	enum payload_kind kind = peek(*b);
	if (kind == PAYLOAD_TLS_HANDSHAKE) {
		count(TARE_C_TLS_HANDSHAKE);
		return false;
	}
	if (kind == PAYLOAD_HTTP_REQUEST)
		s->flags |= S_HTTP;
	else if (s->flags & S_HTTP && kind != PAYLOAD_HTTP_PIECE) {
		count(TARE_C_NOT_REQUEST); /* the rest of a body whose response began early */
		return false;
	}
	ctx->hi = random_id();
	ctx->lo = bpf_cpu_to_be64((low & 0xff000000) << 32 | rv);
	*parent = 0;
	*flags |= TARE_F_ROOT;
	count(TARE_C_ROOTS_SAMPLED);
	return true;
}

/* The tag has not begun a request before. */
INLINE bool tag_first_use(struct socket_state *s, u64 span)
{
	s->last_tag = span;
	if (!tag_note(span)) {
		count(TARE_C_TAG_REPLAYED);
		return false;
	}
	count(TARE_C_TAG_RECEIVED);
	return true;
}

INLINE void server_begin_tagged(struct sock *sk, struct socket_state *s, struct tag_context *tag,
				u8 flags, u32 size, struct bytes b)
{
	struct context ctx = {.hi = tag->hi, .lo = tag->lo};
	u64 parent = tag->span;
	if (!tag_first_use(s, parent)) {
		thread_clear();
		return;
	}
	server_begin(sk, s, &ctx, parent, flags | TARE_F_TAG, size, b);
}

INLINE void rx_remove(struct socket_state *s, u32 i)
{
	u32 last = (s->tags - 1) & (TAGS - 1);
	s->rx[i & (TAGS - 1)] = s->rx[last];
	s->tags = last;
}

/*
 * Bytes [prev, seq) are read, and tags are pending. Marks those that begin in them as read, drops
 * what was passed over, and returns the one that begins at prev, or -1.
 */
INLINE int rx_take(struct socket_state *s, u32 prev, u32 seq)
{
	int at = -1;
	for (int i = TAGS - 1; i >= 0; i--) {
		if (i >= s->tags || s->rx[i].read)
			continue;
		u32 start = s->rx[i].start;
		if (before(start, prev)) {
			count(TARE_C_TAG_STALE);
			rx_remove(s, i);
		} else if (before(start, seq)) {
			s->rx[i].read = 1;
		}
	}
	for (int i = 0; i < TAGS; i++)
		if (i < s->tags && s->rx[i].read && s->rx[i].start == prev)
			at = i;
	return at;
}

/* Pipelining: requests that were read while another was in progress follow in their order. */
INLINE void server_next(struct sock *sk, struct socket_state *s)
{
	int at = -1;
	u32 first = 0;
	for (int i = 0; i < TAGS; i++) {
		if (i >= s->tags || !s->rx[i].read)
			continue;
		if (at < 0 || before(s->rx[i].start, first)) {
			at = i;
			first = s->rx[i].start;
		}
	}
	if (at < 0 || s->ctx.span)
		return;
	struct tag_context tag = s->rx[at & (TAGS - 1)].ctx;
	struct bytes none = {};
	rx_remove(s, at);
	if (cfg_sequence)
		s->begin_seq = first;
	count(TARE_C_PIPELINED);
	server_begin_tagged(sk, s, &tag, TARE_F_PIPELINED, 0, none);
}

/* Decides about a request that begins now; tag: index of its tag, or -1. */
INLINE void server_request(struct sock *sk, struct socket_state *s, int tag, u32 size,
			   struct bytes *b)
{
	if (tag >= 0) {
		struct tag_context ctx = s->rx[tag & (TAGS - 1)].ctx;
		rx_remove(s, tag);
		*b = received_bytes(size);
		server_begin_tagged(sk, s, &ctx, 0, size, *b);
		return;
	}
	if (!(s->flags & S_PEER_TRACED)) {
		struct context ctx = {};
		u64 parent = 0;
		u8 flags = 0;
		if (decide_root(s, size, b, &ctx, &parent, &flags)) {
			server_begin(sk, s, &ctx, parent, flags, size, *b);
			return;
		}
	}
	thread_clear();
}

INLINE void server_received(struct sock *sk, struct tcp_sock *tp, struct socket_state *s, u32 prev,
			    u32 seq)
{
	u32 sent = tp->write_seq - s->snd_seq, size = seq - prev;
	bool fresh = sent && sent != INTERIM_SIZE;
	struct bytes b = {};
	int tag = -1;

	s->snd_seq += sent;
	if (s->tags)
		tag = rx_take(s, prev, seq);
	if (!fresh && tag >= 0 && !s->ctx.span) {
		/* TLS: behind a handshake that needed no answer */
		b = received_bytes(size);
		fresh = peek(b) == PAYLOAD_TLS_DATA;
	}
	if (!fresh) {
		if (s->ctx.span) {
			/* the beginning came in pieces: Go reads one byte ahead */
			if (cfg_payload && s->got < PIECE)
				b = received_bytes(size);
			s->got += size;
			emit_data(s->ctx.span, TARE_RECEIVED, 0, size, bpf_ktime_get_ns(), b);
			if (s->linking == TARE_LINK_THREAD || s->linking == TARE_LINK_LOOP)
				thread_set(&s->ctx, s->linking == TARE_LINK_LOOP);
		} else {
			thread_clear();
		}
		return;
	}
	s->ends = server_finish(s);
	s->msg_end = tp->write_seq;
	if (cfg_sequence)
		s->begin_seq = prev;
	server_request(sk, s, tag, size, &b);
	if (s->ends) { /* no START took it along */
		emit_end(s->ends, TARE_END_NEXT, 0);
		s->ends = 0;
	}
	if (s->linking == TARE_LINK_QUEUE) {
		if (!b.data)
			b = received_bytes(size);
		if (s->flags & S_WAITING)
			queue_drop(sk);
		s->flags |= S_WAITING;
		queue_push(sk, line_hash(b), &s->ctx);
	}
}

INLINE void client_received(struct socket_state *s, u32 size)
{
	if (s->span) {
		struct bytes b = {};
		if (!s->responding)
			b = received_bytes(size);
		u8 flags = s->flags & S_PEER_TRACED ? TARE_D_PEER_TRACED : 0;
		if (!s->responding)
			flags |= TARE_D_FIRST;
		emit_data(s->span, TARE_RECEIVED, flags, size, bpf_ktime_get_ns(), b);
		s->responding = 1;
	}
	if (s->linking == TARE_LINK_LOOP) {
		if (s->ctx.span)
			thread_set(&s->ctx, true);
		else
			thread_clear();
	}
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tare_recv, struct sock *sk)
{
	struct socket_state *s = socket_state(sk);
	if (!sk->sk_lock.owned) /* kernel users of tcp_read_sock may call from softirq */
		return 0;
	if (!s) {
		thread_turned();
		return 0;
	}
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	u32 prev = s->rcv_seq, seq = tp->copied_seq;
	if (!before(prev, seq))
		return 0;
	s->rcv_seq = seq;
	if (s->flags & S_SERVER)
		server_received(sk, tp, s, prev, seq);
	else if (s->flags & S_CLIENT)
		client_received(s, seq - prev);
	return 0;
}
