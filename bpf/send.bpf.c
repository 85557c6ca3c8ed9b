//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Send hook: tcp_sendmsg_locked (Linux 6.16) fires before each copy from user space into the send
 * queue, with the socket owned; sendfile and splice included. One system call may pass it several
 * times, and a system call that did not send all is repeated: the first pass reports all bytes
 * (msg_end), later ones report the time, once in a while.
 *
 * On an accepted socket the first bytes after a request are its response. On a connected socket
 * bytes are a new request if anything was read since the last ones, or if the thread now works
 * for another request (pipelining); else they continue the one before.
 */

#define STILL_SENDING 1000000 /* ns */

/* The rest of what was reported already is being sent: without this, long responses seem short. */
INLINE void still_sending(struct socket_state *s)
{
	struct bytes none = {};
	u64 now = bpf_ktime_get_ns();
	if (!s->span || now - s->sent_at < STILL_SENDING)
		return;
	s->sent_at = now;
	emit_data(s->span, TARE_SENT, 0, 0, now, none);
}

INLINE void server_send(struct sock *sk, struct socket_state *s, const struct msghdr *msg)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u32 size = msg->msg_iter.count;
	if (s->flags & S_WAITING) {
		s->flags &= ~S_WAITING;
		queue_drop(sk);
	}
	if (!tp || !size)
		return;
	if (before(tp->write_seq, s->msg_end)) {
		still_sending(s);
		return;
	}
	s->msg_end = tp->write_seq + size;

	u64 now = bpf_ktime_get_ns();
	struct bytes b = sent_bytes(msg);
	bool begins = !s->span;
	if (cfg_payload) {
		enum payload_kind kind = peek(b);
		if (kind == PAYLOAD_HTTP_INTERIM)
			return;
		if (s->flags & S_HTTP)
			begins = kind == PAYLOAD_HTTP_RESPONSE;
	}
	if (s->ctx.span && begins) {
		u64 span = s->ctx.span;
		request_end(&s->ctx);
		thread_clear_if(span);
		if (s->span)
			emit_end(s->span, TARE_END_NEXT, 0);
		s->span = span;
		s->ctx.span = 0;
		s->sent_at = now;
		emit_data(span, TARE_SENT, TARE_D_FIRST, size, now, b);
	} else if (s->span) {
		struct bytes none = {};
		s->sent_at = now;
		emit_data(s->span, TARE_SENT, 0, size, now, none);
	}
	if (begins && s->tags)
		server_next(sk, s);
}

INLINE void tx_remove(struct socket_state *s, u32 i)
{
	u32 last = (s->tags - 1) & (TAGS - 1);
	if (!s->tx[i & (TAGS - 1)].written)
		count(TARE_C_TAG_NO_ROOM);
	s->tx[i & (TAGS - 1)] = s->tx[last];
	s->tags = last;
}

/* A tag is kept until the peer has acknowledged the first byte of its request. */
INLINE void tx_prune(struct socket_state *s, u32 snd_una)
{
	for (int i = TAGS - 1; i >= 0; i--)
		if (i < s->tags && before(s->tx[i].start, snd_una))
			tx_remove(s, i);
}

INLINE void tx_push(struct socket_state *s, const struct context *ctx, u32 start, u32 snd_una)
{
	tx_prune(s, snd_una);
	u32 i = s->tags;
	if (i >= TAGS) {
		count(TARE_C_TAG_QUEUE_FULL);
		return;
	}
	struct tx_tag *t = &s->tx[i & (TAGS - 1)];
	t->ctx.hi = ctx->hi;
	t->ctx.lo = ctx->lo;
	t->ctx.span = ctx->span;
	t->start = start;
	t->written = 0;
	s->tags = i + 1;
}

/* The context for what is sent now, if any. */
INLINE bool client_context(struct socket_state *s, bool fresh, bool live, const struct msghdr *msg,
			   struct context *ctx)
{
	if (s->flags & S_BOUND) {
		s->flags &= ~S_BOUND;
		*ctx = s->ctx;
		return ctx->span != 0;
	}
	if (!live)
		return false;
	if (s->linking == TARE_LINK_NONE) {
		if (fresh)
			count(TARE_C_LINK_NONE);
		return false;
	}
	if (s->linking == TARE_LINK_QUEUE)
		return fresh && queue_take(line_hash(sent_bytes(msg)), ctx);
	bool loop = s->linking == TARE_LINK_LOOP;
	return thread_get(loop, loop, ctx);
}

INLINE void client_send(struct sock *sk, struct socket_state *s, const struct msghdr *msg)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	u32 copied = tp->copied_seq, seq = tp->write_seq;
	bool live = any_alive();
	bool fresh = s->flags & S_BOUND || !(s->flags & S_SENT) || s->snd_seq != copied;
	struct context ctx = {};

	if (s->span && !fresh && before(seq, s->msg_end))
		return;
	/* an event loop may work for another request while it goes on with a body */
	bool more = !fresh && s->linking == TARE_LINK_LOOP;
	bool have = !more && client_context(s, fresh, live, msg, &ctx);
	u32 size = msg->msg_iter.count;
	struct bytes b = {};
	if (have && fresh && s->span && s->flags & S_HTTP && ctx.span == s->ctx.span &&
	    peek(sent_bytes(msg)) != PAYLOAD_HTTP_REQUEST)
		fresh = false; /* the response began before the body was sent */
	if (!fresh) {
		if (s->span && (!have || ctx.span == s->ctx.span)) {
			s->msg_end = seq + size;
			emit_data(s->span, TARE_SENT, 0, size, bpf_ktime_get_ns(), b);
			return;
		}
		if (!have)
			return;
		count(TARE_C_PIPELINED);
	}
	s->snd_seq = copied;
	s->flags |= S_SENT;
	u64 ends = s->span;
	s->span = 0;
	s->ctx.span = 0;
	if (have && !alive(&ctx)) {
		count(TARE_C_LINK_STALE);
		have = false;
	}
	if (ends && (!have || !fresh)) {
		emit_end(ends, fresh ? TARE_END_NEXT : TARE_END_PIPELINED, 0);
		ends = 0;
	}
	if (!have)
		return;
	s->ctx = ctx;
	b = sent_bytes(msg);
	enum payload_kind kind = s->flags & S_PLAIN ? PAYLOAD_OTHER : peek(b);
	if (kind == PAYLOAD_TLS_HANDSHAKE) {
		count(TARE_C_TLS_HANDSHAKE);
		s->flags |= S_BOUND; /* the request follows, perhaps without a receive in between */
		if (ends)
			emit_end(ends, TARE_END_NEXT, 0);
		return;
	}
	if (kind != PAYLOAD_TLS_DATA)
		s->flags |= S_PLAIN;
	struct context child = {.hi = ctx.hi, .lo = ctx.lo, .span = random_id()};
	u8 flags = fresh ? 0 : TARE_F_PIPELINED;
	s->span = child.span;
	s->responding = 0;
	s->msg_end = seq + size;
	if (s->flags & S_TRUSTED)
		tx_push(s, &child, seq, tp->snd_una);
	else
		flags |= TARE_F_UNTAGGED;
	if (emit_start(sk, s, TARE_CLIENT, flags, &child, ctx.span, ends, bpf_ktime_get_ns(), size,
		       b) == PAYLOAD_HTTP_REQUEST)
		s->flags |= S_HTTP;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tare_send, struct sock *sk, const struct msghdr *msg)
{
	struct socket_state *s = socket_state(sk);
	if (!s)
		return 0;
	if (s->flags & S_SERVER) {
		if (s->ctx.span | s->span | s->tags | (s->flags & S_WAITING))
			server_send(sk, s, msg);
	} else if (s->flags & S_CLIENT) {
		client_send(sk, s, msg);
	}
	return 0;
}

/* A socket ends: spans that it holds will see nothing more. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tare_destroy, struct sock *sk)
{
	struct socket_state *s = socket_state(sk);
	if (!s)
		return 0;
	if (s->flags & S_SERVER && s->ctx.span) {
		request_end(&s->ctx);
		emit_end(s->ctx.span, TARE_END_CLOSED, sk->sk_err);
		s->ctx.span = 0;
	}
	if (s->span) {
		emit_end(s->span, TARE_END_CLOSED, sk->sk_err);
		s->span = 0;
	}
	return 0;
}
