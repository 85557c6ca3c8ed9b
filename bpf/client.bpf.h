/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connected sockets of traced services. Bytes that are sent are a new request if anything was read
 * since the last ones, or if the worker now works for another request (pipelining); else they
 * continue the one before. A request that is linked to one that the service has received gets a
 * span and, towards trusted networks, a tag.
 */
#ifndef TARE_CLIENT_H
#define TARE_CLIENT_H

/* Something came back: with a mark, if IP options pass both ways and who answers is traced. */
INLINE void client_heard(struct conn *c, u32 snd_una)
{
	if (conn_settle(c, snd_una) && c->path.carries == PATH_PROBED)
		path_unanswered(c);
}

/* Whom it asked is not traced, or its connection ended: nobody else says that its request failed. */
__noinline int client_fails(struct conn *c, const struct client_exchange *x, u32 reason)
{
	if (!c || !x)
		return 0;
	struct context ctx = x->caller;
	ctx.span = x->span;
	return trigger(c, &ctx, x->began, reason);
}

/* More of a response. Not of what the connection is used for once it is switched to another protocol. */
__noinline int client_response(struct conn *c, struct bytes *b)
{
	if (!c || !b)
		return 0;
	struct client_exchange *x = &c->client.x;
	struct more m = {.span = x->span, .direction = TARE_RECEIVED};
	bool first = !x->responding;
	m.http = is_http(c);
	if (first || m.http)
		received_bytes(c, b);
	m.direction |= chunks_go_on(c, b, 0, first);
	m.flags = (c->flags & C_PEER_TRACED ? TARE_D_PEER_TRACED : 0) | (first ? TARE_D_FIRST : 0);
	m.b = *b;
	if (!first)
		m.b.data = 0;
	m.now = bpf_ktime_get_ns();
	emit_data(&m);
	x->responding = 1;
	if (cfg_retro && first && !(c->flags & C_PEER_TRACED) && is_retro(x->span) &&
	    retro_is_error(b))
		client_fails(c, x, TARE_RETRO_ERROR);
	if (first && m.http && peek(b) == PAYLOAD_HTTP_SWITCH) {
		emit_end(x->span, TARE_END_SWITCHED, 0);
		x->span = 0;
	}
	return 0;
}

INLINE void client_received(struct conn *c, struct bytes b)
{
	c->flags &= ~C_BOUND; /* what was sent first has not been seen: Fast Open */
	if (c->client.x.span)
		client_response(c, &b);
	worker_resumed(c);
}

/* Whether a tag may be sent. */
INLINE bool client_may_tag(struct conn *c, const struct tcp_view *v)
{
	if (!(c->flags & C_TRUSTED))
		return false;
	if (c->family == AF_UNIX)
		return true; /* it goes from socket to socket */
	if (cfg_tag == TARE_TAG_NONE)
		return false;
	if (cfg_tag == TARE_TAG_TCP && v->disarmed && c->flags & C_STANDS) {
		conn_disarmed(c);
		return false;
	}
	if (cfg_tag == TARE_TAG_TCP || path_open(c))
		return true;
	count(TARE_C_TAG_NO_PATH);
	return false;
}

/*
 * A request begins at c, caused by the request of a->ctx, or by none (TARE_F_ROOT: a->ctx.span is 0); a->ends: the span
 * that it ends.
 */
INLINE void client_begin(struct conn *c, const struct tcp_view *v, u32 skip, struct start *a)
{
	struct client_exchange *x = &c->client.x;
	x->caller = a->ctx;
	a->parent = a->ctx.span;
	a->ctx.span = random_span(a->parent ? is_retro(a->parent) : a->retro);
	x->span = a->ctx.span;
	x->responding = 0;
	bool told = false;
	if (within_host(c))
		told = inbox_tag(c, &a->ctx, v->write_seq + skip);
	else if (client_may_tag(c, v))
		told = tx_push(c, &a->ctx, v->write_seq + skip, v->snd_una);
	a->flags |= told ? 0 : TARE_F_UNTAGGED;
	a->role = TARE_CLIENT;
	a->now = bpf_ktime_get_ns();
	if (cfg_retro)
		x->began = a->now;
	a->offset = client_offset(v, skip);
	a->sequence = cfg_sequence ? v->write_seq + skip : 0;
	if (emit_start(c, a) == PAYLOAD_HTTP_REQUEST)
		c->flags |= C_HTTP;
	if (by_thread(c))
		publish(a->ctx.span);
}

/* What ends a connection, and will not be answered. */
INLINE bool client_says_goodbye(struct conn *c, struct bytes *b)
{
	if (c->flags & C_TLS && peek(b) == PAYLOAD_TLS_HANDSHAKE) {
		count(TARE_C_TLS_HANDSHAKE); /* an alert, as close_notify */
		return true;
	}
	return b->size == PAYLOAD_GOODBYE_SIZE && peek(b) == PAYLOAD_GOODBYE;
}

/*
 * The same as client_send where it is known before that nothing is sampled: an event loop sends, and
 * no sampled request is in flight. Returns whether that was all.
 */
INLINE bool client_passes(struct conn *c, u32 copied_seq, u32 size)
{
	struct client_exchange *x = &c->client.x;
	if (c->linking != TARE_LINK_LOOP || c->opening != OPENING_DONE || x->span ||
	    (c->flags & (C_SENT | C_BOUND | C_TLS | C_HTTP2)) != C_SENT ||
	    size == PAYLOAD_GOODBYE_SIZE || threads_matter() || !promise_stands(c))
		return false;
	if (c->client.read_seq != copied_seq) {
		c->client.read_seq = copied_seq;
		x->caller.span = 0;
	}
	return true;
}

__noinline int client_send(struct conn *c, struct tcp_view *v, struct bytes *b)
{
	if (!c || !v || !b)
		return 0;
	struct client_exchange *x = &c->client.x;
	struct start *a = start_in(HOOK_SENDS);
	u32 skip = 0;
	if (!a)
		return 0;
	a->b = *b;
	bool fresh =
	    c->flags & C_BOUND || !(c->flags & C_SENT) || c->client.read_seq != v->copied_seq;

	if (before(v->write_seq, c->msg_end) && (c->opening != OPENING_DONE || (x->span && !fresh)))
		return 0; /* reported with the bytes before */
	if (c->opening != OPENING_DONE) {
		int at = opening(c, b);
		if (c->flags & C_HTTP2)
			return 0;
		c->msg_end = v->write_seq + b->size;
		if (at < 0) { /* the handshake: the request follows, perhaps without a receive */
			c->client.read_seq = v->copied_seq;
			if (c->flags & C_MARK)
				conn_promise(c, !(c->flags & C_SILENT), v, 0, b->size);
			return 0;
		}
		fresh = true;
		skip = at;
		a->b = bytes_behind(a->b, skip);
	}
	if (fresh && client_says_goodbye(c, &a->b))
		return 0;
	/* an event loop may work for another request while it goes on with a body */
	bool more = !fresh && c->linking == TARE_LINK_LOOP;
	int why = more ? 0 : worker_asks(c, v, &a->b, fresh, &a->ctx);
	if (why && fresh && !(why = header_asks(c, v, &a->b, why, &a->ctx)))
		a->flags = TARE_F_HEADER;
	bool have = !more && !why && a->ctx.span;
	if (fresh && x->span && c->flags & C_HTTP && (have || why) &&
	    a->ctx.span == x->caller.span && peek(&a->b) != PAYLOAD_HTTP_REQUEST)
		fresh = false; /* the response began before the body was sent */
	if (!fresh) {
		if (x->span && (!have || a->ctx.span == x->caller.span)) {
			struct more m = {.span = x->span, .direction = TARE_SENT, .b = *b};
			c->msg_end = v->write_seq + b->size;
			m.b.data = 0;
			m.now = bpf_ktime_get_ns();
			emit_data(&m);
			return 0;
		}
		if (!have)
			return 0;
		count(TARE_C_PIPELINED);
		a->flags = TARE_F_PIPELINED;
	}
	c->client.read_seq = v->copied_seq;
	c->flags |= C_SENT;
	u64 ends = x->span;
	x->span = 0;
	x->caller.span = 0;
	if (have && !in_flight(&a->ctx)) {
		why = TARE_UNLINKED_STALE;
		have = false;
	}
	if (why && fresh) {
		why = own_call(c, why, a);
		have = a->flags & TARE_F_ROOT;
	}
	if (why && fresh)
		not_linked(c, why);
	if (fresh)
		conn_promise(c, !why, v, 0, b->size);
	if (ends && (!have || !fresh)) {
		emit_end(ends, fresh ? TARE_END_NEXT : TARE_END_PIPELINED, 0);
		ends = 0;
	}
	if (!have)
		return 0;
	c->msg_end = v->write_seq + b->size;
	a->ends = ends;
	client_begin(c, v, skip, a);
	return 0;
}

/* The connection ends. */
INLINE void client_closed(struct conn *c, u32 error)
{
	struct client_exchange *x = &c->client.x;
	if (x->span)
		emit_end(x->span, TARE_END_CLOSED, error);
	if (is_retro(x->span) && !x->responding)
		client_fails(c, x, error ? TARE_RETRO_RESET : TARE_RETRO_NO_RESPONSE);
	x->span = 0;
}

#endif
