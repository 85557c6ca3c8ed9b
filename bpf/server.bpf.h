/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accepted connections. One goes through
 *
 *	           a request begins, see below
 *	idle ───────────────────────────────────────────────────────────────▶ reading
 *	  ▲   its tag begins here: sampled, child of the tag's span                │ bytes: more
 *	  │   no tag, the peer promised tags: not sampled                          │ of it
 *	  │   no tag, and no promise: entry, the root decision                     ▼
 *	  └──────────────────────── responding ◀───────────────── response begins (send)
 *
 * A sampled request of HTTP/1 is in flight until its response is over, where the response's framing says when that is and
 * the first KiB of its header shows the framing; else until its response begins.
 *
 * A request begins where its tag says so. Without a tag it begins with the first bytes that are
 * read after something was sent that was no interim response (1xx); but
 *
 *	HTTP/1   only if they look like a request: a server may read the rest of a body after its
 *		 answer; and then the next request begins although nothing was sent in between
 *	FastCGI  where FCGI_BEGIN_REQUEST stands, for the same reason
 *	TLS      behind the handshake: opening.bpf.h
 *
 * Where requests are told by turns and not linked by threads, one that is not sampled costs two
 * comparisons here and, at an entry, a random number.
 */
#ifndef TARE_SERVER_H
#define TARE_SERVER_H

/*
 * "HTTP/1.1 100 Continue\r\n\r\n". What is sent in this size is looked at though no sampled request
 * is in flight, because an interim response ends no request.
 */
#define INTERIM_SIZE 25

/* A request of which fewer bytes than this have been read has not said its name yet. */
#define PIECE 16

/* At most this many sends after a TLS 1.3 handshake are session tickets; two are usual. */
#define TICKETS 2

#define STILL_SENDING 1000000 /* ns */

/* The response to the request in progress has gone on, and is over. */
__noinline int server_over(struct conn *c)
{
	if (!c)
		return 0;
	if (cfg_retro)
		retro_answered(c, &c->server.x, 0);
	exchange_end(c, &c->server.x);
	worker_over(c);
	c->server.x.ctx.span = 0;
	return 0;
}

/* The request before is over. Returns its span, for which a START or an END must follow. */
INLINE u64 server_finish(struct conn *c)
{
	struct server_exchange *x = &c->server.x;
	if (x->answers)
		server_over(c);
	u64 ends = x->responding;
	x->responding = 0;
	if (x->ctx.span) { /* never answered, yet the next request began */
		if (ends)
			emit_end(ends, TARE_END_NEXT, 0);
		exchange_end(c, x);
		ends = x->ctx.span;
		x->ctx.span = 0;
	}
	return ends;
}

/* A sampled request begins: a->ctx without its span, a->parent, a->flags, a->b. */
__noinline int server_begin(struct conn *c, struct tcp_view *v, struct start *a)
{
	if (!c || !v || !a)
		return 0;
	struct server_exchange *x = &c->server.x;
	a->ctx.span = random_span(a->retro);
	if (!exchange_begin(c, x, &a->ctx))
		return 0;
	a->now = bpf_ktime_get_ns();
	retro_begins(x, a->now, a->flags);
	a->role = TARE_SERVER;
	a->ends = x->ends;
	a->offset = server_offset(c, v);
	a->sequence = cfg_sequence ? x->begin_seq : 0;
	x->ends = 0;
	x->got = a->b.size;
	x->ctx = a->ctx;
	if (service_silent(c))
		a->flags |= TARE_F_UNLINKED;
	if (emit_start(c, a) == PAYLOAD_HTTP_REQUEST)
		c->flags |= C_HTTP;
	if (works_on_answers(c)) {
		u8 method = 0; /* HEAD and CONNECT, or not known */
		if (cfg_payload && a->b.data)
			bpf_probe_read_user(&method, 1, a->b.data);
		x->bodiless = !method || method == 'H' || method == 'C';
	}
	return 0;
}

INLINE struct traceparent_walk *traceparent_of(void)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	return sc ? &sc->walk : 0;
}

/* Finds the parent of a request of HTTP/1. */
INLINE bool finds_parent(struct conn *c, struct start *a)
{
	struct traceparent_walk *w = traceparent_of();
	if (!w || !may_adopt(c))
		return false;
	w->whole = 1;
	received_bytes(c, &a->b);
	if (find_traceparent(&a->b, &w->parent))
		return true;
	if (!w->whole)
		count(TARE_C_PARENT_UNREAD);
	return false;
}

/*
 * The root decision, once per request; adopts: the parent that traceparent_of has. Fills in a->ctx, a->parent and
 * a->flags.
 */
__noinline int decide_root(struct conn *c, struct start *a, u64 arrived, u32 adopts)
{
	u64 threshold = sampling_threshold;
	if (!c || !a || !in_turn(arrived))
		return 0;
	u64 drawn = c->server.drawn;
	c->server.drawn = 0;
	grace_ends();
	a->parent = 0;
	const struct traceparent_walk *found = adopts ? traceparent_of() : 0;
	if (found) {
		const struct payload_parent *p = &found->parent;
		__builtin_memcpy(&a->ctx.hi, p->trace_id, 8);
		__builtin_memcpy(&a->ctx.lo, p->trace_id + 8, 8);
		__builtin_memcpy(&a->parent, p->span_id, 8);
		a->flags |= TARE_F_ADOPTED;
		count(TARE_C_ADOPTED);
		if (!(c->flags & C_HTTP2))
			c->flags |= C_HTTP;
		u64 rv = bpf_be64_to_cpu(a->ctx.lo) & RANDOM_MASK;
		if (cfg_parent_based ? p->sampled : rv >= threshold)
			return 1;
		a->retro = cfg_retro && rv >= retro_threshold;
		return a->retro;
	}
	u64 low = drawn ?: draw();
	if ((low & RANDOM_MASK) < traced_from()) {
		count(TARE_C_ROOTS_UNSAMPLED);
		return 0;
	}
	a->retro = cfg_retro && (low & RANDOM_MASK) < threshold;
	int kind = peek_received(c, &a->b);
	if (kind == PAYLOAD_TLS_HANDSHAKE) { /* an alert, or a handshake that nobody saw begin */
		count(TARE_C_TLS_HANDSHAKE);
		return 0;
	}
	if (kind == PAYLOAD_HTTP_PIECE && may_adopt(c))
		count(TARE_C_PARENT_UNREAD);
	if (kind == PAYLOAD_HTTP_REQUEST) {
		c->flags |= C_HTTP;
	} else if (kind == PAYLOAD_GOODBYE ||
		   (c->flags & C_HTTP && kind != PAYLOAD_HTTP_PIECE && (a->b.data || !a->b.len))) {
		count(TARE_C_NOT_REQUEST); /* or the rest of a body whose response began early */
		return 0;
	}
	a->ctx.lo = bpf_cpu_to_be64(low);
	a->ctx.hi = random_trace(a->ctx.lo, a->retro);
	a->threshold = threshold;
	a->flags |= TARE_F_ROOT;
	if (c->flags & C_BEHIND && c->flags & C_TRUSTED)
		a->flags |= TARE_F_BEHIND;
	count(a->retro ? TARE_C_ROOTS_RETRO : TARE_C_ROOTS_SAMPLED);
	return 1;
}

/* The tag says whose child the request is. False: it began a request before. */
INLINE bool take_tag(struct conn *c, u32 tag, struct start *a)
{
	struct tag_context t = c->server.rx[tag & (TAGS - 1)].ctx;
	rx_remove(c, tag);
	c->server.last_tag = t.span;
	if (!tag_note(t.span)) {
		count(TARE_C_TAG_REPLAYED);
		return false;
	}
	count(TARE_C_TAG_RECEIVED);
	a->ctx.hi = t.hi;
	a->ctx.lo = t.lo;
	a->parent = t.span;
	a->retro = cfg_retro && t.flags & TAG_RETRO;
	a->flags |= TARE_F_TAG;
	return true;
}

/* Pipelining: requests that were read while another was in progress follow in their order. */
__noinline int server_next(struct conn *c, struct tcp_view *v)
{
	struct start *a = start_in(HOOK_SENDS);
	if (!c || !v || !a || c->server.x.ctx.span)
		return 0;
	int tag = rx_read(c, c->rcv_seq, c->rcv_seq); /* nothing is read now */
	if (tag < 0)
		return 0;
	c->server.x.begin_seq = c->server.rx[tag & (TAGS - 1)].start;
	count(TARE_C_PIPELINED);
	a->flags = TARE_F_PIPELINED;
	if (take_tag(c, tag, a)) {
		server_begin(c, v, a);
		worker_received(c, v->sock, &a->b);
		header_unseen(c);
	}
	return 0;
}

/* Decides about a request that begins now; tag: index of its tag, or -1. */
INLINE void server_request(struct conn *c, struct tcp_view *v, int tag, struct start *a)
{
	struct server_exchange *x = &c->server.x;
	weigh_request(c);
	x->ends = server_finish(c);
	x->begin_seq = v->copied_seq - a->b.size;
	c->msg_end = v->write_seq;
	if (tag >= 0) {
		c->server.drawn = 0;
		if (take_tag(c, tag, a)) {
			received_bytes(c, &a->b);
			server_begin(c, v, a);
		}
	} else if (!conn_follows(c) && decide_root(c, a, v->arrived, finds_parent(c, a))) {
		server_begin(c, v, a);
	}
	worker_received(c, v->sock, &a->b);
	header_received(c, &a->b);
	if (x->ends) { /* no START took it along */
		emit_end(x->ends, TARE_END_NEXT, 0);
		x->ends = 0;
	}
}

/* More of a request, or bytes that belong to none. */
INLINE void server_more(struct conn *c, struct start *a)
{
	struct server_exchange *x = &c->server.x;
	struct bytes b = a->b;
	if (x->ctx.span) {
		/* the beginning came in pieces: Go reads one byte ahead */
		if (cfg_payload && x->got < PIECE)
			received_bytes(c, &a->b);
		else
			a->b.data = 0;
		x->got += a->b.size;
		struct more m = {.span = x->ctx.span, .direction = TARE_RECEIVED, .b = a->b};
		m.now = bpf_ktime_get_ns();
		emit_data(&m);
	}
	if (!x->answers)
		worker_received_more(c, &b);
}

/*
 * Bytes [from, v->copied_seq) were read, while nothing is known of the connection's protocol.
 * Returns where in them the first request begins, or -1.
 */
INLINE int server_opening(struct conn *c, struct bytes *b, u32 from, int tag)
{
	received_bytes(c, b);
	int at = opening(c, b);
	if (c->flags & C_HTTP2)
		return -1;
	if (tag >= 0) { /* the sender knows better */
		at = c->server.rx[tag & (TAGS - 1)].start - from;
		c->opening = OPENING_DONE;
	}
	return at;
}

/* What is read ends a message that was answered before, and then a request begins. */
INLINE bool server_tail(struct conn *c, struct bytes *b)
{
	if (c->flags & C_HTTP)
		return peek_received(c, b) != PAYLOAD_HTTP_REQUEST;
	return c->flags & C_FASTCGI && peek_received(c, b) != PAYLOAD_FASTCGI;
}

/* Whether it matters if bytes on an HTTP/1 connection look like a request. */
INLINE bool server_looks(struct conn *c, bool fresh)
{
	if (!cfg_payload || c->server.x.ctx.span)
		return cfg_payload && c->server.x.answers;
	return by_thread(c) || c->linking == TARE_LINK_QUEUE || !(fresh || conn_follows(c));
}

INLINE bool server_http(struct conn *c, struct bytes *b, bool fresh)
{
	int kind = peek_received(c, b);
	return kind == PAYLOAD_HTTP_REQUEST || (fresh && (!b->data || kind == PAYLOAD_HTTP_PIECE));
}

#define SHORT_HEADER 512 /* bytes */

/*
 * The size bytes that were received are the whole header of a request without a body, and no line of it begins as that
 * header does; or they are none of HTTP/1. False if that is not known, which find_traceparent tells then.
 */
__noinline int has_no_traceparent(struct conn *c, u32 size)
{
	u32 zero = 0;
	struct bytes b = {.size = size};
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!c || !sc)
		return 0;
	received_bytes(c, &b);
	u64 len = AT_MOST(b.len, SHORT_HEADER);
	if (!b.data || len < 16 || b.len > SHORT_HEADER || b.len != size ||
	    bpf_probe_read_user(sc->bytes, len, b.data))
		return 0;
	if (sc->bytes[0] < 'A' || sc->bytes[0] > 'Z')
		return 1;
	/* behind the end are bytes of other requests, which may seem to matter */
	const u8 *p = sc->bytes;
	for (u32 i = 0; i < SHORT_HEADER && i < len; i += 8, p += 8) {
		u64 lines = payload_equal(payload_eight(p), '\n');
		if (lines && lines & payload_equal(payload_eight(p + 1) | PAYLOAD_CASE, 't'))
			return 0;
	}
	return *(u32 *)&sc->bytes[len - 4] == PAYLOAD_WORD('\r', '\n', '\r', '\n');
}

/*
 * A request begins at an entry whose connection is used by an event loop, in size bytes that arrived then: whether it is not
 * sampled, nor has a parent, as most. What was drawn is kept for decide_root.
 */
__noinline int entry_passes(struct conn *c, u64 arrived, u32 size)
{
	if (!c || !in_turn(arrived))
		return 0;
	u64 low = draw();
	if ((low & RANDOM_MASK) < traced_from() && (!may_adopt(c) || has_no_traceparent(c, size))) {
		count(TARE_C_ROOTS_UNSAMPLED);
		return 1;
	}
	c->server.drawn = low;
	return 0;
}

/*
 * The same as server_received where it soon shows that nothing is sampled: an event loop reads bytes without a tag, of a peer
 * that promises tags or at an entry. Of the view, only sock, write_seq and arrived are needed. Returns whether that was all.
 */
INLINE bool server_passes(struct conn *c, const struct tcp_view *v, u32 from)
{
	struct server_exchange *x = &c->server.x;
	if (cfg_tag == TARE_TAG_IP || c->linking != TARE_LINK_LOOP || c->opening != OPENING_DONE ||
	    c->tags || x->ctx.span | x->responding || c->flags & (C_HTTP2 | C_FASTCGI) ||
	    headers_noted || *(volatile u64 *)&notes_unread)
		return false;
	bool fresh = v->write_seq - c->server.sent_seq != c->server.interim;
	if (!conn_follows(c)) {
		if (!fresh || c->flags & C_UNSEEN)
			return false;
		grace_ends();
		if (!entry_passes(c, v->arrived, c->rcv_seq - from))
			return false;
	}
	if (fresh) {
		weigh_request(c);
		x->ends = 0;
		x->begin_seq = from;
		c->msg_end = v->write_seq;
	}
	c->server.socket = v->sock;
	c->server.sent_seq = v->write_seq;
	c->server.interim = 0;
	thread_clear();
	return true;
}

__noinline int server_received(struct conn *c, struct tcp_view *v, u32 from)
{
	struct start *a = start_in(HOOK_RECEIVES);
	if (!c || !v || !a)
		return 0;
	struct server_exchange *x = &c->server.x;
	u32 sent = v->write_seq - c->server.sent_seq;
	bool fresh = sent != c->server.interim;
	u8 tickets = 0;
	if (sent > 1) /* conn_accepted counts one byte too many */
		unseen_ends(c);
	if (cfg_tag == TARE_TAG_IP && c->flags & C_MARK)
		conn_settle(c, v->snd_una);
	if (*(volatile u64 *)&notes_unread)
		inbox_read(c, v->copied_seq, v->write_seq);
	if (cfg_tag == TARE_TAG_IP && c->flags & C_MARK)
		path_open(c);
	int tag = c->tags ? rx_read(c, from, v->copied_seq) : -1;
	a->b.size = v->copied_seq - from;
	c->server.socket = v->sock;
	c->server.sent_seq = v->write_seq;
	c->server.interim = 0;
	if (c->opening != OPENING_DONE) {
		bool new = c->opening != OPENING_OLD, finished = c->tls.finished;
		int at = server_opening(c, &a->b, from, tag);
		if (c->tls.finished && !finished)
			c->server.finished_seq = v->write_seq;
		if (c->flags & C_HTTP2)
			return 0;
		if (at < 0) {
			worker_received_more(c, &a->b);
			return 0;
		}
		if (at > 0) {
			a->b = bytes_behind(a->b, at);
			from += at;
		}
		fresh |= new;
		if (c->flags & C_TLS &&
		    (!c->tls.finished || (c->tls.v13 && c->server.finished_seq == v->write_seq)))
			tickets = TICKETS;
	}

	if (x->ctx.span && !fresh)
		tag = -1; /* pipelined: its turn comes when the response before it has begun */
	if (tag >= 0) {
		u32 skip = c->server.rx[tag & (TAGS - 1)].start - from;
		if (skip && !server_tail(c, &a->b))
			tag = -1; /* behind a request that is not sampled: the same */
		else if (skip)
			a->b = bytes_behind(a->b, skip);
	}
	if (tag >= 0)
		fresh = true;
	else if (c->flags & C_FASTCGI)
		fresh = peek_received(c, &a->b) == PAYLOAD_FASTCGI;
	else if (c->flags & C_HTTP && server_looks(c, fresh))
		fresh = server_http(c, &a->b, fresh);
	if (!fresh) {
		server_more(c, a);
		return 0;
	}
	server_request(c, v, tag, a);
	if (x->ctx.span)
		x->tickets = tickets;
	return 0;
}

/* The rest of what was reported already is being sent: without this, long responses seem short. */
INLINE void still_sending(struct conn *c)
{
	struct more m = {.span = c->server.x.responding, .direction = TARE_SENT};
	m.now = bpf_ktime_get_ns();
	if (!m.span || m.now - c->sent_at < STILL_SENDING)
		return;
	c->sent_at = m.now;
	emit_data(&m);
}

/* One TLS record, and not a large one: it may be a session ticket. */
INLINE bool may_be_ticket(const struct bytes *b)
{
	u8 head[HEAD];
	if (read_head(head, b) < TLS_HEADER || head[0] != 23)
		return false;
	return ((u32)head[3] << 8 | head[4]) + TLS_HEADER == b->size && b->size < 1024;
}

/* What to say of calls that were made meanwhile and not linked; enum unlinked. */
INLINE u8 server_unlinked(struct conn *c, const struct server_exchange *x, bool waited)
{
	struct service_state *svc = service_of(c->service);
	if (!svc || svc->unlinked == x->unlinked)
		return 0;
	if (c->linking == TARE_LINK_QUEUE && !waited)
		return 0; /* its call was linked */
	return svc->reason;
}

/* Returns whether server_next is to be called: not from here, the stack has no room. */
__noinline int server_send(struct conn *c, struct tcp_view *v, struct bytes *b)
{
	if (!c || !v || !b)
		return 0;
	struct server_exchange *x = &c->server.x;
	bool sampled = x->ctx.span | x->responding | c->tags;
	if (!b->size)
		return 0;
	if (before(v->write_seq, c->msg_end)) {
		still_sending(c);
		return 0;
	}
	c->msg_end = v->write_seq + b->size;
	bool begins = !x->responding, waited = false, switches = false, http = false;
	if (cfg_payload && (sampled || b->size == INTERIM_SIZE)) {
		int kind = peek(b);
		if (kind == PAYLOAD_HTTP_INTERIM ||
		    (c->flags & C_TLS && kind == PAYLOAD_TLS_HANDSHAKE)) {
			c->server.interim += b->size; /* or the end of a handshake: false start */
			return 0;
		}
		http = kind == PAYLOAD_HTTP_RESPONSE;
		switches = kind == PAYLOAD_HTTP_SWITCH;
		if (sampled && begins && !b->data) /* spliced, so turns have to tell */
			c->flags &= ~C_HTTP;
		if (sampled && c->flags & C_HTTP)
			begins = (http || switches) && !x->answers;
	}
	if (begins && c->flags & C_WAITING) {
		c->flags &= ~C_WAITING;
		waited = queue_drop(c->server.waiting, v->sock);
	}
	struct more m = {.direction = TARE_SENT, .b = *b};
	m.direction |= chunks_go_on(c, b, last_buffer(v->more, v->buffers), begins);
	if (x->ctx.span && begins) {
		m.now = c->sent_at = bpf_ktime_get_ns();
		m.span = x->ctx.span;
		m.flags = TARE_D_FIRST | server_unlinked(c, x, waited) << TARE_D_UNLINKED_SHIFT;
		if (x->responding)
			emit_end(x->responding, TARE_END_NEXT, 0);
		x->responding = 0;
		if (x->tickets && may_be_ticket(b)) {
			exchange_seems_answered(c, m.now);
			worker_seems_answered(c);
			emit_data(&m);
			return 0;
		}
		worker_publishes(c);
		if (cfg_retro)
			retro_answered(c, x, b);
		u32 answers = http ? answer_begins(c, b, v->write_seq, &m.direction) : ANSWERS_NOT;
		if (answers)
			exchange_answers(c, x, answers);
		else
			exchange_end(c, x);
		worker_answered(c, b);
		x->responding = x->ctx.span;
		if (!answers)
			x->ctx.span = 0;
		m.http = is_http(c);
		emit_data(&m);
		if (switches) {
			emit_end(x->responding, TARE_END_SWITCHED, 0);
			x->responding = 0;
		}
	} else {
		if (begins)
			worker_answered(c, b);
		if (x->responding) {
			bool over = x->answers && answer_ends(c, m.direction);
			m.now = c->sent_at = bpf_ktime_get_ns();
			m.span = x->responding;
			m.b.data = 0;
			if (over) {
				m.flags = server_unlinked(c, x, false) << TARE_D_UNLINKED_SHIFT;
				server_over(c);
			}
			emit_data(&m);
			return over && c->tags;
		}
	}
	return begins && c->tags;
}

/* The connection ends. */
INLINE void server_closed(struct conn *c, u32 error)
{
	struct server_exchange *x = &c->server.x;
	unseen_ends(c);
	inbox_close(c);
	worker_closed(c);
	go_closed(c);
	if (x->ctx.span) {
		exchange_end(c, x);
		if (x->ctx.span != x->responding) {
			emit_end(x->ctx.span, TARE_END_CLOSED, error);
			retro_unanswered(c, &x->ctx, x->began, error);
		}
		x->ctx.span = 0;
	}
	if (x->responding) {
		emit_end(x->responding, TARE_END_CLOSED, error);
		x->responding = 0;
	}
}

#endif
