/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * HTTP/2 without TLS: many requests on one connection, each in a stream of its own (RFC 9113), whose
 * frames are followed (frames.bpf.h).
 *
 *	a request begins    with the HEADERS of a new stream
 *	its response begins with the first HEADERS of the other direction
 *	it ends             when that direction ends (END_STREAM), or with RST_STREAM
 *
 * Only sampled streams are remembered. Contents of HEADERS are compressed: the agent decodes them, and
 * hpack.bpf.h as far as calls are linked by them.
 */
#ifndef TARE_HTTP2_H
#define TARE_HTTP2_H

INLINE bool stream_keep(struct conn *c, u32 stream, const struct stream *s)
{
	struct stream_key k = stream_key(c, stream);
	if (bpf_map_update_elem(&streams, &k, s, BPF_ANY)) {
		count(TARE_C_STORAGE_FULL);
		return false;
	}
	c->http2.live++;
	return true;
}

INLINE void stream_forget(struct conn *c, u32 stream)
{
	struct stream_key k = stream_key(c, stream);
	if (!bpf_map_delete_elem(&streams, &k) && c->http2.live)
		c->http2.live--;
}

/* ---- accepted connections ---- */

/* The header of a frame, with its number. */
INLINE void frame_head(u8 *head, const struct frame *f)
{
	head[0] = f->payload >> 16;
	head[1] = f->payload >> 8;
	head[2] = f->payload;
	head[3] = f->type;
	head[4] = f->flags;
	__builtin_memcpy(head + 5, &f->block, 4);
}

/* Headers are told, bodies only counted. */
INLINE void frame_more(struct more *m, const struct frame *f)
{
	m->b = frame_bytes(f);
	if ((f->type == FRAME_HEADERS || f->type == FRAME_REST) && f->in) {
		m->flags = TARE_D_HEADERS;
		frame_head(m->head, f);
	} else {
		m->b.data = 0;
	}
}

/*
 * Headers of a stream without a span: those that follow on the connection refer to them. Where not
 * all is sampled there would be too many.
 */
__noinline int headers_alone(struct conn *c, const struct frame *f, u32 hook, u32 request)
{
	struct start *a = start_in(hook);
	if (!c || !f || !a || *(volatile u64 *)&sampling_threshold ||
	    !(f->type == FRAME_HEADERS || f->type == FRAME_REST))
		return 0;
	a->b = frame_bytes(f);
	frame_head(a->head, f);
	a->role = request ? TARE_SERVER : TARE_CLIENT;
	a->flags = TARE_F_HTTP2;
	emit_start(c, a);
	return 0;
}

/* The tag of a request that begins at a position, or in a stream. */
INLINE bool stream_take_tag(struct conn *c, u32 stream, u32 at, struct start *a)
{
	struct tag_context t = {};
	int tag = c->tags ? rx_find(c, at) : -1;
	if (tag >= 0)
		return take_tag(c, tag, a);
	if (!(stream_tag_at(c, at, &t) || stream_tagged(c, stream, &t)) || !tag_note(t.span))
		return false;
	c->server.last_tag = t.span;
	count(TARE_C_TAG_RECEIVED);
	a->ctx.hi = t.hi;
	a->ctx.lo = t.lo;
	a->parent = t.span;
	a->retro = cfg_retro && t.flags & TAG_RETRO;
	a->flags |= TARE_F_TAG;
	return true;
}

/* Finds the parent of the request that begins with a stream, in the block that was read last. */
INLINE bool stream_finds_parent(struct conn *c, u32 stream)
{
	struct traceparent_walk *w = traceparent_of();
	struct hpack_conn *h = c->http2.hpack >= HPACK_ADOPTS ? hpack_of(c->http2.id) : 0;
	if (!w || !may_adopt(c))
		return false;
	if (!h || h->stream != stream || (h->open && !h->adopts)) {
		count(TARE_C_PARENT_UNREAD);
		return false;
	}
	w->parent = h->parent;
	return h->adopts;
}

__noinline int stream_request(struct conn *c, struct tcp_view *v, const struct frame *f, u32 from)
{
	struct frame_scratch *scratch = frames_of(HOOK_RECEIVES);
	struct start *a = start_in(HOOK_RECEIVES);
	if (!c || !v || !f || !scratch || !a)
		return 0;
	struct server_exchange *x = &scratch->stream.server;
	__builtin_memset(x, 0, sizeof(*x));
	c->http2.last = f->stream;
	if (!c->http2.first)
		c->http2.first = f->stream;
	weigh_request(c);
	a->b = frame_bytes(f);
	bool tagged = stream_take_tag(c, f->stream, from + f->at, a);
	bool named = stream_named(c, f->stream), apart = named && !tagged;
	if (apart) {
		count(TARE_C_STREAMS_APART);
		a->ctx.hi = random_id();
		a->ctx.lo = random_id();
		a->parent = 0;
	} else if (!tagged && (conn_follows(c) ||
			       !decide_root(c, a, v->arrived, stream_finds_parent(c, f->stream)))) {
		return headers_alone(c, f, HOOK_RECEIVES, true);
	}
	a->ctx.span = random_span(a->retro);
	if (!exchange_begin(c, x, &a->ctx))
		return 0;
	x->ctx = a->ctx;
	a->now = bpf_ktime_get_ns();
	retro_begins(x, a->now, a->flags);
	if (!stream_keep(c, f->stream, &scratch->stream)) {
		exchange_end(c, x);
		return 0;
	}
	a->role = TARE_SERVER;
	c->server.x.begin_seq = from + f->at;
	if (cfg_sequence || apart)
		stream_position(c, a, from + f->at);
	a->flags |= TARE_F_HTTP2 | (service_silent(c) ? TARE_F_UNLINKED : 0);
	frame_head(a->head, f);
	emit_start(c, a);
	return 0;
}

/* A stream ends: its response is whole, or somebody gave it up. */
INLINE void stream_ends(struct conn *c, u32 stream, u64 span, u32 reason)
{
	emit_end(span, reason, 0);
	stream_forget(c, stream);
}

/* A frame of a request that goes on. */
__noinline int stream_more(struct conn *c, const struct frame *f)
{
	if (!c || !f)
		return 0;
	struct stream *s = stream_of(c, f->stream);
	if (!s)
		return headers_alone(c, f, HOOK_RECEIVES, true);
	u64 span = s->server.ctx.span;
	if (f->type == FRAME_RESET) {
		exchange_end(c, &s->server);
		if (!s->server.responding)
			retro_unanswered(c, &s->server.ctx, s->server.began, true);
		stream_ends(c, f->stream, span, TARE_END_CLOSED);
		return 0;
	}
	if (s->server.responding)
		return 0; /* a stream of both directions: the response has begun */
	struct more m = {.span = span, .direction = TARE_RECEIVED};
	frame_more(&m, f);
	m.now = bpf_ktime_get_ns();
	emit_data(&m);
	return 0;
}

/* The first and the last name ":status" of the static table (RFC 7541 A); the digit 5 in Huffman's code (B), 6 bits. */
#define HPACK_STATUS_200 8
#define HPACK_STATUS_500 14
#define HUFFMAN_5	 0x1b

/*
 * The HEADERS with which a response begins have a status of 5xx, or are all of it, as those of failed calls of gRPC are. A
 * status that the encoder has put into its dynamic table is not known here.
 */
__noinline int retro_is_failed_frame(const struct frame *f)
{
	u8 head[HEAD] = {};
	if (!f || f->flags & (FRAME_PADDED | FRAME_PRIORITY))
		return false;
	struct bytes b = frame_bytes(f);
	bool ends = f->flags & FRAME_END_STREAM;
	if (!read_head(head, &b))
		return false;
	u8 at = head[0], name = at & ((at & 0xc0) == 0x40 ? 0x3f : 0x0f);
	if (at & 0x80)
		return at == (0x80 | HPACK_STATUS_500) || (at == (0x80 | HPACK_STATUS_200) && ends);
	if ((at & 0xe0) == 0x20 || name < HPACK_STATUS_200 || name > HPACK_STATUS_500)
		return false;
	return head[1] & 0x80 ? head[2] >> 2 == HUFFMAN_5 : head[2] == '5';
}

/* The response to a stream that was received begins, or is over. */
__noinline int stream_answered(const struct conn *c, const struct server_exchange *x,
			       const struct frame *f, u32 begins)
{
	if (!c || !x || !f || !is_retro(x->ctx.span))
		return 0;
	if (begins && retro_is_failed_frame(f))
		return trigger(c, &x->ctx, x->began, TARE_RETRO_ERROR);
	if (f->type == FRAME_RESET)
		return trigger(c, &x->ctx, x->began, TARE_RETRO_RESET);
	return retro_answered(c, x, 0);
}

/* A frame of a response. */
__noinline int stream_response(struct conn *c, const struct frame *f)
{
	if (!c || !f)
		return 0;
	struct stream *s = stream_of(c, f->stream);
	if (!s)
		return headers_alone(c, f, HOOK_SENDS, false);
	struct server_exchange *x = &s->server;
	struct more m = {.direction = TARE_SENT, .span = x->ctx.span};
	bool ends = f->type == FRAME_RESET || f->flags & FRAME_END_STREAM;
	frame_more(&m, f);
	m.now = bpf_ktime_get_ns();
	bool begins = !x->responding && f->type == FRAME_HEADERS;
	if (begins || ends)
		m.flags |= server_unlinked(c, x, false) << TARE_D_UNLINKED_SHIFT;
	if (cfg_retro && (begins || ends))
		stream_answered(c, x, f, begins);
	if (begins) {
		m.flags |= TARE_D_FIRST;
		x->responding = m.span;
		if (!works_on_answers(c))
			exchange_end(c, x);
		else if (!ends)
			exchange_answers(c, x, ANSWERS_CLOSE);
	}
	if (x->responding)
		emit_data(&m); /* trailers have the status of gRPC */
	if (ends) {
		exchange_end(c, x);
		stream_ends(c, f->stream, m.span,
			    f->type == FRAME_RESET ? TARE_END_CLOSED : TARE_END_STREAM);
	}
	return 0;
}

/* ---- connected sockets ---- */

/* A request begins that this end sends. */
__noinline int stream_asks(struct conn *c, const struct tcp_view *v, const struct frame *f,
			   u32 size)
{
	struct frame_scratch *scratch = frames_of(HOOK_SENDS);
	struct start *a = start_in(HOOK_SENDS);
	if (!c || !v || !f || !scratch || !a)
		return 0;
	struct client_exchange *x = &scratch->stream.client;
	__builtin_memset(&scratch->stream, 0, sizeof(scratch->stream));
	c->http2.last = f->stream;
	int why = worker_asks_stream(c, f->stream, &a->ctx);
	bool by_header = why && f->by_header == 1;
	if (by_header)
		a->ctx = f->ctx;
	if (why && f->by_header && f->by_header <= TARE_UNLINKED_MAX)
		why = f->by_header - 1;
	if (!why && a->ctx.span && !in_flight(&a->ctx))
		why = TARE_UNLINKED_STALE;
	if (why)
		why = own_call(c, why, a);
	if (why) {
		not_linked(c, why);
		scratch->unlinked = 1;
	}
	conn_promise(c, !scratch->unlinked, v, f->at > 0 ? f->at : 0, size);
	bool root = a->flags & TARE_F_ROOT;
	if (why || !(a->ctx.span || root)) {
		c->http2.gaps |= sampling_threshold != 0;
		return headers_alone(c, f, HOOK_SENDS, true);
	}
	x->caller = a->ctx;
	a->parent = a->ctx.span;
	a->ctx.span = x->span = random_span(a->parent ? is_retro(a->parent) : a->retro);
	bool retro = is_retro(x->span);
	x->began = retro ? bpf_ktime_get_ns() : 0;
	c->http2.gaps |= retro; /* its HEADERS lie elsewhere than those of sampled ones */
	if (!stream_keep(c, f->stream, &scratch->stream))
		return 0;
	bool told = false;
	u32 seq = v->write_seq + f->at;
	if (within_host(c)) {
		told = stream_tag(c, f->stream, &a->ctx);
	} else if (client_may_tag(c, v)) {
		/* Of a header that began in an earlier write the rest can be named. */
		u32 sent = f->at < 0 ? v->write_seq : seq;
		bool named = !retro && streams_apart(c) && stream_push(c, f->stream, sent);
		told = (f->at >= 0 && tx_push(c, &a->ctx, seq, v->snd_una)) || named;
	}
	frame_head(a->head, f);
	a->flags = TARE_F_HTTP2 | (root ? TARE_F_ROOT : 0) | (told ? 0 : TARE_F_UNTAGGED) |
		   (by_header && !root ? TARE_F_HEADER : 0);
	a->role = TARE_CLIENT;
	a->now = bpf_ktime_get_ns();
	if (cfg_sequence || streams_apart(c))
		stream_position(c, a, seq);
	a->b = frame_bytes(f);
	if (c->http2.gaps && c->linking == TARE_LINK_GOROUTINE && go_method(&a->b))
		a->head[3] = TARE_FRAME_PATH;
	emit_start(c, a);
	return 0;
}

/* A frame of a stream that this end has begun. */
__noinline int stream_goes_on(struct conn *c, const struct frame *f, u32 direction)
{
	if (!c || !f)
		return 0;
	struct stream *s = stream_of(c, f->stream);
	if (!s)
		return headers_alone(c, f, direction == TARE_SENT ? HOOK_SENDS : HOOK_RECEIVES,
				     direction == TARE_SENT);
	struct client_exchange *x = &s->client;
	struct more m = {.span = x->span, .direction = direction};
	bool received = direction == TARE_RECEIVED;
	m.now = bpf_ktime_get_ns();
	frame_more(&m, f);
	m.flags |= received && c->flags & C_PEER_TRACED ? TARE_D_PEER_TRACED : 0;
	if (received && !x->responding && f->type == FRAME_HEADERS) {
		m.flags |= TARE_D_FIRST;
		x->responding = 1;
		if (is_retro(x->span) && !(c->flags & C_PEER_TRACED) && retro_is_failed_frame(f))
			client_fails(c, x, TARE_RETRO_ERROR);
	}
	emit_data(&m);
	if (f->type == FRAME_RESET || (received && f->flags & FRAME_END_STREAM))
		stream_ends(c, f->stream, x->span,
			    f->type == FRAME_RESET ? TARE_END_CLOSED : TARE_END_STREAM);
	return 0;
}

/* How many streams before the last are looked at when a connection ends, or is given up. */
#define STREAMS_ENDED 1024

struct ending {
	struct conn *c;
	u32 reason;
	u32 error;
};

static long stream_closed(u64 i, struct ending *e)
{
	struct conn *c = e->c;
	u32 stream = c->http2.last - 2 * i;
	if ((s32)stream <= 0 || !c->http2.live)
		return 1;
	struct stream *s = stream_of(c, stream);
	if (!s)
		return 0;
	u64 span = s->client.span;
	if (c->flags & C_SERVER) {
		span = s->server.ctx.span;
		exchange_end(c, &s->server);
		if (!s->server.responding)
			retro_unanswered(c, &s->server.ctx, s->server.began, e->error);
	} else if (is_retro(span) && !s->client.responding) {
		client_fails(c, &s->client, e->error ? TARE_RETRO_RESET : TARE_RETRO_NO_RESPONSE);
	}
	emit_end(span, e->reason, e->error);
	stream_forget(c, stream);
	return 0;
}

__noinline int streams_end(struct conn *c, u32 reason, u32 error)
{
	struct ending e = {.c = c, .reason = reason, .error = error};
	if (!c || !c->http2.live)
		return 0;
	bpf_loop(STREAMS_ENDED, stream_closed, &e, 0);
	return 0;
}

/* ---- the hooks ---- */

/*
 * A loop works for the stream that all is of which a call has received. It is not known if there are several, or one that
 * began before the connection was armed.
 */
__noinline int loop_turns_to(struct conn *c, u32 stream)
{
	static const struct context none;
	struct thread_state *t = thread_find();
	if (!c || !t)
		return 0;
	if (!c->http2.turn)
		c->http2.turn = stream;
	else if (stream && c->http2.turn != stream)
		c->http2.turn = TURN_UNKNOWN;
	stream = c->http2.turn;
	if (!stream)
		return 0;
	if (stream == TURN_UNKNOWN || !c->http2.first || stream < c->http2.first) {
		loop_puts_off(t);
		return 0;
	}
	struct stream *s = stream_of(c, stream);
	thread_set(s ? &s->server.ctx : &none, 0, true);
	t->turn = c->http2.id;
	return 0;
}

/* Frames of streams that have begun matter; headers_alone. */
INLINE bool streams_matter(const struct conn *c)
{
	return c->http2.live || !*(volatile u64 *)&sampling_threshold;
}

/* Its frames cannot be followed any more. */
INLINE void http2_lost(struct conn *c)
{
	streams_end(c, TARE_END_LOST, 0);
	hpack_lose(c);
	header_streams_end(c);
}

/* What is done with received frames that matter. Sent ones leave no room on the stack of calls for a bpf_loop. */
struct frames_walk {
	struct conn *c;
	struct tcp_view *v;
};

static long received_step(u64 i, struct frames_walk *walk)
{
	struct frame_scratch *s = frames_of(HOOK_RECEIVES);
	struct conn *c = walk->c;
	if (!s || i >= s->n)
		return 1;
	const struct frame *f = &s->list[i & (FRAMES - 1)];
	if (!(c->flags & C_SERVER)) {
		if (streams_matter(c))
			stream_goes_on(c, f, TARE_RECEIVED);
		return 0;
	}
	bool whole = s->blocks && block_read(c, i);
	if (f->type == FRAME_HEADERS && f->stream > c->http2.last)
		stream_request(c, walk->v, f, walk->v->copied_seq - s->size);
	else if (streams_matter(c))
		stream_more(c, f);
	if (whole && headers_matter(c))
		header_stream_begins(c);
	return 0;
}

/* Takes what was received, in rounds; returns whether there is another. */
__noinline int http2_received(struct conn *c, struct tcp_view *v, u32 from, u32 round)
{
	struct bytes b = {};
	if (!c || !v)
		return 0;
	bool server = c->flags & C_SERVER;
	if (c->http2.lost) {
		if (server) {
			worker_received_http2(c, v->write_seq);
			if (c->linking == TARE_LINK_LOOP)
				loop_turns_to(c, TURN_UNKNOWN);
		}
		return 0;
	}
	b.size = v->copied_seq - from;
	if (!round) {
		received_bytes(c, &b);
		if (server && *(volatile u64 *)&notes_unread)
			inbox_read(c, v->copied_seq, v->write_seq);
		if (c->http2.hpack == HPACK_NEW)
			hpack_begins(c);
		if (server)
			worker_received_http2(c, v->write_seq);
		else if (c->linking == TARE_LINK_LOOP)
			worker_turned();
	}
	u32 n = frames_follow(c, &b, c->call_more, HOOK_RECEIVES, round);
	struct frame_scratch *s = frames_of(HOOK_RECEIVES);
	struct frames_walk walk = {.c = c, .v = v};
	if (n)
		bpf_loop(FRAMES, received_step, &walk, 0);
	if (server && headers_matter(c))
		headers_follow(c, HOOK_RECEIVES);
	if (c->http2.lost)
		http2_lost(c);
	else if (s && frames_left(s))
		return 1;
	if (server && s && c->linking == TARE_LINK_LOOP)
		loop_turns_to(c, c->http2.lost ? TURN_UNKNOWN : s->turn);
	if (server && c->tags) { /* but those of a frame that has begun */
		const struct frames *f = &c->http2.in;
		rx_passed(c, v->copied_seq - f->have - (f->begins ? FRAME_HEADER : 0));
	}
	return 0;
}

/* The same of what is sent. */
__noinline int http2_sent(struct conn *c, struct tcp_view *v, struct bytes *b, u32 round)
{
	if (!c || !v || !b || c->http2.lost || (!round && before(v->write_seq, c->msg_end)))
		return 0;
	c->msg_end = v->write_seq + b->size;
	if (c->http2.hpack == HPACK_NEW)
		hpack_begins(c);
	u32 n = frames_follow(c, b, v->more, HOOK_SENDS, round);
	if (headers_matter(c))
		headers_follow(c, HOOK_SENDS);
	struct frame_scratch *s = frames_of(HOOK_SENDS);
	for (u32 i = 0; s && i < FRAMES && i < n; i++) {
		const struct frame *f = &s->list[i];
		bool server = c->flags & C_SERVER;
		if (!server && f->type == FRAME_HEADERS && f->stream > c->http2.last)
			stream_asks(c, v, f, b->size);
		else if (server && streams_matter(c))
			stream_response(c, f);
		else if (!server && streams_matter(c))
			stream_goes_on(c, f, TARE_SENT);
	}
	if (c->http2.lost)
		http2_lost(c);
	return s && !c->http2.lost && frames_left(s);
}

/* The connection ends, or its process closes it: what can still be sent is of no request that has a span. */
INLINE void conn_ends(struct conn *c, u32 error)
{
	if (c->flags & C_ENDED)
		return;
	c->flags |= C_ENDED;
	if (c->flags & C_HTTP2)
		streams_end(c, TARE_END_CLOSED, error);
	if (c->http2.id) {
		header_streams_end(c);
		streams_forget(c);
	}
	if (c->flags & C_SERVER)
		server_closed(c, error);
	else if (c->flags & C_CLIENT)
		client_closed(c, error);
}

#endif
