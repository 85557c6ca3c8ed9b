/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Headers over HTTP/2, which are compressed with a table of the connection (hpack.h). The blocks of
 * requests are read from a connection's first one on, or not at all.
 *
 * Linking by a correlation header (header.bpf.h): a connection whose table is not known is blind, as one
 * over TLS is.
 *
 *	received  the values of each stream, sampled or not, are in flight until its response begins
 *	sent      the values of a new stream say whose call it is, if its block is in one write
 *
 * Followed are connections of services of which nothing else may link calls: HPACK_TRIAL requests, and all
 * if the service has made a call with a value by then.
 *
 * traceparent is adopted from trusted peers that are not traced, as over HTTP/1, if it stands in what is read at once.
 */
#ifndef TARE_HPACK_BPF_H
#define TARE_HPACK_BPF_H

#define HPACK_TRIAL	  65536
#define HPACK_CHUNK	  1024	    /* bytes of a block that are read at once */
#define HPACK_STEPS	  (1 << 18) /* in a piece of a frame */
#define HPACK_PARENTS	  8	    /* fields of the table with a traceparent: the newest */
#define HPACK_TRACEPARENT 0x80	    /* in a field's name, beside the number: it is traceparent */

/* A field of the table with a traceparent. */
struct hpack_parent {
	struct payload_parent parent;
	u8 valid;
	u8 pad[2];
	u32 entry; /* its number in the table, + 1; 0: not there */
};

/* The headers of a connection's requests. */
struct hpack_conn {
	struct hpack_table table;
	struct hpack_reader reader;
	u64 text[HPACK_TEXT / 8]; /* of a string that a piece ends in */
	u64 value[HEADER_VALUES]; /* of a block */
	u8 name[HEADER_VALUES];
	u32 n;
	u32 stream;					/* that the block is of */
	u32 last;					/* the newest one */
	u32 wanted;					/* bits of names */
	struct payload_parent parent;			/* of the block */
	u8 adopts;					/* it is there */
	u8 traceparents;				/* in the block, at most 2 */
	u8 kept;					/* in parents, ever */
	struct hpack_parent parents[HPACK_PARENTS + 1]; /* the last one: not of the table */
	u8 open;					/* the block goes on */
	u8 more;					/* it may have other values */
	u8 fresh;					/* it begins a request */
	u8 padding;					/* of the frame in progress */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* http2.id */
	__type(value, struct hpack_conn);
} hpack_conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hpack_tables);
} hpack_standard SEC(".maps");

/* A piece that is being read. */
struct hpack_walk {
	struct hpack_reader r;
	u64 id;
	u64 data;
	u32 left; /* bytes at data */
	u32 at, len;
	u32 lost;
	u32 ended; /* a traceparent: hpack_read calls hpack_traceparent, for whose stack there is no room in a step */
	u8 bytes[HPACK_CHUNK];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* enum hook */
	__type(key, u32);
	__type(value, struct hpack_walk);
} hpack_walks SEC(".maps");

INLINE struct hpack_walk *hpack_walk_in(u32 hook)
{
	return bpf_map_lookup_elem(&hpack_walks, &hook);
}

INLINE struct hpack_conn *hpack_of(u64 id)
{
	return bpf_map_lookup_elem(&hpack_conns, &id);
}

INLINE struct stream_key stream_key(const struct conn *c, u32 stream)
{
	struct stream_key k = {.connection = c->http2.id, .stream = stream};
	return k;
}

INLINE struct stream *stream_of(const struct conn *c, u32 stream)
{
	struct stream_key k = stream_key(c, stream);
	return bpf_map_lookup_elem(&streams, &k);
}

/* ---- which connections ---- */

/* Nothing has been read of a new connection. */
__noinline int hpack_begins(struct conn *c)
{
	static const struct hpack_conn none;
	struct service_state *svc = c ? service_of(c->service) : 0;
	if (!c || !svc)
		return 0;
	u64 id = c->http2.id;
	bool links = svc->headers && (c->linking == TARE_LINK_NONE || by_thread(c)) &&
		     (svc->headers_since || svc->headers_tried < HPACK_TRIAL);
	c->http2.hpack = HPACK_NOT;
	if (!cfg_payload || !(links || (may_adopt(c) && !conn_follows(c))))
		return 0;
	bpf_map_update_elem(&hpack_conns, &id, &none, BPF_ANY);
	struct hpack_conn *h = hpack_of(id);
	if (!h) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	h->table.size = HPACK_TABLE;
	h->wanted = links ? svc->headers : 0;
	c->http2.hpack = links ? HPACK_FOLLOWED : HPACK_ADOPTS;
	return 0;
}

INLINE void hpack_forget(struct conn *c)
{
	u64 id = c->http2.id;
	bpf_map_delete_elem(&hpack_conns, &id);
	c->http2.hpack = HPACK_NOT;
}

/* A connection's headers cannot be read any more. */
__noinline int hpack_lose(struct conn *c)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	if (!c || c->http2.hpack < HPACK_ADOPTS)
		return 0;
	bool links = c->http2.hpack == HPACK_FOLLOWED;
	hpack_forget(c);
	if (!links || !svc || !svc->headers_since)
		return 0;
	count(TARE_C_HEADERS_LOST);
	if (c->flags & C_SERVER)
		header_blind(c, svc);
	return 0;
}

/* ---- blocks ---- */

INLINE void hpack_found(struct hpack_conn *h, u64 value, u8 name)
{
	for (u32 i = 0; i < HEADER_VALUES; i++) {
		if (i < h->n && h->value[i] == value)
			return;
		if (i == h->n) {
			h->value[i] = value;
			h->name[i] = name;
			h->n = i + 1;
			return;
		}
	}
	h->more = 1;
}

/* The number + 1 of the name that a field of the static table has. */
INLINE u8 hpack_fixed(struct hpack_conn *h, u32 number)
{
	u32 zero = 0;
	struct header_names *names = bpf_map_lookup_elem(&header_names, &zero);
	u8 fixed = names ? names->fixed[number & 63] : 0, name = fixed & ~TARE_HEADER_SPLIT;
	if (!name || !(h->wanted >> ((name - 1) & 31) & 1))
		return 0;
	if (fixed == name)
		return name;
	h->more = 1;
	return 0;
}

#define TRACEPARENT_NAME 11 /* bytes */

/* The same of the name in the text. */
INLINE u8 hpack_name(u32 hook, u32 len, u32 wanted)
{
	struct header_scan *s = header_scan_in(hook);
	struct header_walk walk = {.hook = hook};
	if (!s || len >= 8 * TARE_HEADER_WORDS)
		return 0;
	s->bytes[len & (HPACK_TEXT - 1)] = ':';
	u8 name = 0;
	if (len == TRACEPARENT_NAME && payload_is_traceparent_key(s->bytes))
		name = HPACK_TRACEPARENT;
	if (!wanted)
		return name;
	s->wanted = wanted;
	bpf_loop(TARE_HEADERS, header_name_is, &walk, 0);
	return walk.n == len + 1 ? name | (walk.name + 1) : name;
}

/*
 * A traceparent ends, whose value is in the text, or was, when it got its place in the table. A second one in a block makes
 * both worthless (W3C trace context 3.2.1).
 */
__noinline int hpack_traceparent(u32 hook)
{
	struct hpack_walk *w = hpack_walk_in(hook);
	struct header_scan *s = header_scan_in(hook);
	struct hpack_conn *h = w ? hpack_of(w->id) : 0;
	if (!w || !s || !h)
		return 0;
	u32 indexed = w->r.kind == HPACK_KIND_INDEXED, added = w->r.kind == HPACK_KIND_ADDED;
	u32 entry = h->table.n; /* + 1 */
	if (indexed)
		entry -= w->r.number - HPACK_FIXED - 1;
	u64 place = HPACK_PARENTS;
	for (u32 i = 0; indexed && i < HPACK_PARENTS; i++)
		if (h->parents[i].entry == entry)
			place = i;
	if (added)
		place = h->kept++ & (HPACK_PARENTS - 1);
	struct hpack_parent *p = &h->parents[AT_MOST(place, HPACK_PARENTS)];
	if (!indexed) {
		u32 len = w->r.len, version = 0;
		if (len >= TRACEPARENT_VALUE)
			version = payload_traceparent(s->bytes, &p->parent);
		bool ends = len == TRACEPARENT_VALUE || s->bytes[TRACEPARENT_VALUE] == '-';
		p->valid = version == 1 ? len == TRACEPARENT_VALUE : version && ends;
		p->entry = added ? entry : 0;
	}
	h->traceparents++;
	h->adopts = h->traceparents == 1 && p->valid && (!indexed || p->entry == entry);
	if (h->adopts)
		h->parent = p->parent;
	return 0;
}

/* Something of a block is whole. */
__noinline int hpack_event(u32 hook, u32 event)
{
	struct hpack_walk *w = hpack_walk_in(hook);
	struct header_scan *s = header_scan_in(hook);
	if (!w || !s)
		return 0;
	struct hpack_conn *h = hpack_of(w->id);
	struct hpack_reader *r = &w->r;
	const struct hpack_entry *e = h ? hpack_find(&h->table, r->number) : 0;
	u32 zero = 0, number = r->number, len = r->len;
	u64 value = 0;
	if (!h || event == HPACK_BAD)
		goto lost;
	if (event == HPACK_NAME) {
		r->name = hpack_name(hook, len, h->wanted);
		r->name_len = len;
	} else if (event == HPACK_VALUE) {
		u32 name = r->name & ~HPACK_TRACEPARENT;
		if (name) {
			if (len < HPACK_TEXT)
				s->bytes[len & (HPACK_TEXT - 1)] = '\r';
			s->len = len + 1;
			value = header_hash(hook, 0, name - 1);
		}
		if (r->kind == HPACK_KIND_ADDED)
			hpack_add(&h->table, r, value);
		if (value)
			hpack_found(h, value, name - 1);
		if (r->name & HPACK_TRACEPARENT)
			w->ended = h->traceparents < 2;
	} else if (event == HPACK_SIZE) {
		if (!hpack_resize(&h->table, number))
			goto lost;
	} else if (number <= HPACK_FIXED) {
		struct hpack_tables *t = bpf_map_lookup_elem(&hpack_standard, &zero);
		if (!number || !t)
			goto lost;
		r->name = hpack_fixed(h, number);
		r->name_len = t->name_len[number & 63];
		if (event == HPACK_INDEXED && r->name)
			h->more = 1;
	} else {
		if (!e)
			goto lost;
		r->name = e->name;
		r->name_len = e->name_len;
		if (event != HPACK_INDEXED)
			return 0;
		if (e->value)
			hpack_found(h, e->value, (e->name & ~HPACK_TRACEPARENT) - 1);
		if (e->name & HPACK_TRACEPARENT)
			w->ended = h->traceparents < 2;
	}
	return 0;
lost:
	w->lost = 1;
	return 0;
}

/* A byte of a block, or bytes that are skipped. */
static long hpack_step(u64 i, u32 *hook)
{
	struct hpack_walk *w = hpack_walk_in(*hook);
	struct header_scan *s = header_scan_in(*hook);
	u32 zero = 0;
	struct hpack_tables *t = bpf_map_lookup_elem(&hpack_standard, &zero);
	if (!w || !s || !t)
		return 1;
	if (w->at >= w->len) {
		u64 n = AT_MOST(w->left, HPACK_CHUNK);
		if (!n)
			return 1;
		if (bpf_probe_read_user(w->bytes, n, (void *)w->data)) {
			w->lost = 1;
			return 1;
		}
		w->data += n;
		w->left -= n;
		w->len = n;
		w->at = 0;
	}
	u32 event;
	if (hpack_skips(&w->r)) {
		u32 n = w->len - w->at;
		n = w->r.left < n ? w->r.left : n;
		w->at += n;
		event = hpack_skip(&w->r, n);
	} else {
		u8 byte = w->bytes[w->at & (HPACK_CHUNK - 1)];
		w->at++;
		event = hpack_byte(&w->r, t, s->bytes, byte);
	}
	if (event)
		hpack_event(*hook, event);
	return w->lost || w->ended;
}

/* The string that a piece ends in, or begins in, is in the text. */
INLINE bool hpack_in_text(const struct hpack_reader *r)
{
	return r->next == HPACK_AT_TEXT && !hpack_skips(r);
}

/* Bytes of a block; false: it cannot be read. */
INLINE bool hpack_read(u64 id, u64 data, u32 len, u32 hook)
{
	struct hpack_walk *w = hpack_walk_in(hook);
	struct header_scan *s = header_scan_in(hook);
	struct hpack_conn *h = hpack_of(id);
	if (!w || !s || !h)
		return false;
	w->r = h->reader;
	w->id = id;
	w->data = data;
	w->left = len;
	w->at = w->len = w->lost = w->ended = 0;
	if (hpack_in_text(&w->r))
		__builtin_memcpy(s->bytes, h->text, HPACK_TEXT);
	for (u32 i = 0; i < 3; i++) { /* two traceparents at most, and what is behind */
		bpf_loop(HPACK_STEPS, hpack_step, &hook, 0);
		if (!w->ended)
			break;
		w->ended = 0;
		hpack_traceparent(hook);
	}
	if (w->lost || w->left || w->at < w->len)
		return false;
	h->reader = w->r;
	if (hpack_in_text(&w->r))
		__builtin_memcpy(h->text, s->bytes, HPACK_TEXT);
	return true;
}

/* A piece of HEADERS or CONTINUATION. Returns whether the block ends with it. */
__noinline int hpack_piece(struct conn *c, const struct frame *f, u32 hook)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	struct hpack_conn *h = c ? hpack_of(c->http2.id) : 0;
	if (!c || !f || !svc || !h)
		goto lost;
	u32 from = 0, to = f->payload, start = f->behind, end = f->behind + f->in;
	if (f->type == FRAME_HEADERS) {
		if (h->open || (h->wanted && h->wanted != svc->headers))
			goto lost;
		if (h->wanted && !svc->headers_since && svc->headers_tried++ >= HPACK_TRIAL) {
			if (!may_adopt(c))
				goto lost;
			h->wanted = 0;
			c->http2.hpack = HPACK_ADOPTS;
		}
		h->open = 1;
		h->n = h->more = h->adopts = h->traceparents = 0;
		h->stream = f->stream;
		h->fresh = (s32)(f->stream - h->last) > 0;
		if (h->fresh)
			h->last = f->stream;
	} else if (!h->open || h->stream != f->stream) {
		goto lost;
	}
	if (f->type != FRAME_CONTINUATION) {
		if (f->flags & FRAME_PADDED) {
			if (!start && bpf_probe_read_user(&h->padding, 1, (void *)f->data))
				goto lost;
			from = 1;
			to -= h->padding;
		}
		if (f->flags & FRAME_PRIORITY)
			from += 5;
		if (f->payload < from + (f->payload - to))
			goto lost;
	}
	if (start < from)
		start = from;
	if (end > to)
		end = to;
	if (start < end &&
	    !hpack_read(c->http2.id, f->data + (start - f->behind), end - start, hook))
		goto lost;
	if (!f->ends || !(f->flags & FRAME_END_HEADERS))
		return false;
	h->open = 0;
	if (h->reader.next != HPACK_AT_FIELD)
		goto lost;
	return true;
lost:
	hpack_lose(c);
	return false;
}

/* ---- streams that were received ---- */

/* The values of a request in a stream. */
struct header_stream {
	u64 value[HEADER_VALUES]; /* 0: none */
	u32 newer, older;	  /* streams of the connection that have values; 0: none */
	u32 blind;		  /* it may have others */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct stream_key);
	__type(value, struct header_stream);
} header_streams SEC(".maps");

INLINE struct header_stream *header_stream_of(const struct conn *c, u32 stream)
{
	struct stream_key k = stream_key(c, stream);
	return bpf_map_lookup_elem(&header_streams, &k);
}

INLINE void header_stream_forget(const struct conn *c, u32 stream)
{
	struct stream_key k = stream_key(c, stream);
	bpf_map_delete_elem(&header_streams, &k);
}

/* The request in a stream is over. */
__noinline int header_stream_over(struct conn *c, u32 stream, u32 doubtful)
{
	struct header_stream *v = c ? header_stream_of(c, stream) : 0;
	if (!c || !v)
		return 0;
	struct service_state *svc = service_of(c->service);
	struct header_stream *newer = v->newer ? header_stream_of(c, v->newer) : 0;
	struct header_stream *older = v->older ? header_stream_of(c, v->older) : 0;
	if (newer)
		newer->older = v->older;
	else
		c->http2.noted = v->older;
	if (older)
		older->newer = v->newer;
	if (v->blind && svc)
		__sync_fetch_and_add(&svc->blind, -1);
	for (u32 i = 0; i < HEADER_VALUES; i++)
		if (v->value[i])
			header_leave(c, v->value[i], doubtful);
	header_stream_forget(c, stream);
	return 0;
}

/* A block has ended: if it begins a request, its values are in flight. */
__noinline int header_stream_begins(struct conn *c)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	struct hpack_conn *h = c ? hpack_of(c->http2.id) : 0;
	if (!c || !svc || !h || !svc->headers_since || !h->fresh || !(h->n || h->more))
		return 0;
	struct header_stream new = {.older = c->http2.noted, .blind = h->more};
	struct stream_key k = stream_key(c, h->stream);
	if (bpf_map_update_elem(&header_streams, &k, &new, BPF_NOEXIST)) {
		count(TARE_C_STORAGE_FULL);
		hpack_lose(c);
		return 0;
	}
	struct header_stream *v = bpf_map_lookup_elem(&header_streams, &k);
	struct header_stream *older = new.older ? header_stream_of(c, new.older) : 0;
	struct stream *s = stream_of(c, h->stream);
	struct context ctx = {};
	if (s)
		ctx = s->server.ctx;
	if (!v)
		return 0;
	if (older)
		older->newer = h->stream;
	c->http2.noted = h->stream;
	for (u32 i = 0; i < HEADER_VALUES; i++) {
		if (i >= h->n)
			break;
		if (header_note(c, h->value[i], &ctx))
			v->value[i] = h->value[i];
		else
			v->blind = 1;
	}
	if (v->blind)
		__sync_fetch_and_add(&svc->blind, 1);
	return 0;
}

/*
 * A response begins, or somebody gives the stream up. gRPC says in a response without a body that a
 * request failed.
 */
__noinline int header_stream_answered(struct conn *c, const struct frame *f)
{
	u8 head[4] = {};
	u32 class = 0;
	struct header_stream *v = c && f ? header_stream_of(c, f->stream) : 0;
	if (!c || !f || !v)
		return 0;
	if (f->type == FRAME_HEADERS) {
		u32 skip = (f->flags & FRAME_PADDED ? 1 : 0) + (f->flags & FRAME_PRIORITY ? 5 : 0);
		u64 len = f->in > skip ? f->in - skip : 0;
		len = AT_MOST(len, 3);
		if (len && !bpf_probe_read_user(head, len, (void *)(f->data + skip)))
			class = hpack_status_class(head);
		if (class == 1)
			return 0;
		if (!class && v->blind)
			hpack_lose(c); /* it may be an interim response */
	}
	bool failed = class != 2 && class != 3;
	header_stream_over(c, f->stream, failed || !f->ends || f->flags & FRAME_END_STREAM);
	return 0;
}

static long header_stream_ends(u64 i, struct conn **c)
{
	struct conn *conn = *c;
	if (!conn->http2.noted)
		return 1;
	header_stream_over(conn, conn->http2.noted, true);
	return 0;
}

/* The connection ends, or what it carries is not known any more. */
__noinline int header_streams_end(struct conn *c)
{
	if (!c)
		return 0;
	if (c->http2.hpack >= HPACK_ADOPTS)
		hpack_forget(c);
	if (c->http2.noted)
		bpf_loop(65536, header_stream_ends, &c, 0);
	return 0;
}

/* ---- what frames say ---- */

/*
 * A block of a new stream has ended that begins with a frame: the headers say whose call it is, as in
 * header_asks, unless something else does.
 */
__noinline int hpack_asks(struct conn *c, struct frame *f)
{
	struct header_scan *s = header_scan_in(HOOK_SENDS);
	struct service_state *svc = c ? service_of(c->service) : 0;
	struct hpack_conn *h = c ? hpack_of(c->http2.id) : 0;
	if (!c || !f || !s || !svc || !h || !svc->in_flight || !h->fresh || !h->n)
		return 0;
	s->n = h->n;
	for (u32 i = 0; i < HEADER_VALUES; i++) {
		s->value[i] = h->value[i];
		s->name[i] = h->name[i];
	}
	if (header_begun(svc))
		f->by_header = header_decides(c, TARE_UNLINKED_MAX, &f->ctx) + 1;
	return 0;
}

/* The conn of a hook that looks at frames. */
struct headers_of {
	struct conn *c;
	u32 hook;
};

/* Frames whose headers are read. */
struct blocks_walk {
	struct conn *c;
	u32 whole;
};

static long block_step(u64 i, struct blocks_walk *walk)
{
	struct frame_scratch *s = frames_of(HOOK_RECEIVES);
	struct conn *c = walk->c;
	if (!s || s->taken >= s->n || c->http2.hpack < HPACK_ADOPTS)
		return 1;
	struct frame *f = &s->list[s->taken & (FRAMES - 1)];
	if (f->type == FRAME_DATA || f->type == FRAME_RESET)
		return 1;
	s->taken++;
	if (!hpack_piece(c, f, HOOK_RECEIVES))
		return 0;
	walk->whole = 1;
	return 1;
}

/*
 * Reads the block that begins, or goes on, with a frame that was received, as far as it is there. Returns whether it is
 * whole.
 */
INLINE bool block_read(struct conn *c, u32 at)
{
	struct frame_scratch *s = frames_of(HOOK_RECEIVES);
	struct blocks_walk walk = {.c = c};
	if (!c || !s || at < s->taken)
		return 0;
	s->taken = at;
	bpf_loop(FRAMES, block_step, &walk, 0);
	return walk.whole;
}

static long headers_step(u64 i, struct headers_of *of)
{
	struct frame_scratch *s = frames_of(of->hook);
	struct conn *c = of->c;
	if (!s || i >= s->n)
		return 1;
	bool server = c->flags & C_SERVER;
	struct frame *f = &s->list[i & (FRAMES - 1)];
	if (f->type == FRAME_RESET || (server && of->hook == HOOK_SENDS)) {
		if (f->type != FRAME_DATA && f->type != FRAME_REST)
			header_stream_answered(c, f);
		return 0;
	}
	if (server || !s->blocks || f->type == FRAME_DATA || c->http2.hpack != HPACK_FOLLOWED)
		return 0;
	if (f->type == FRAME_HEADERS)
		s->begun = i + 1;
	if (hpack_piece(c, f, of->hook) && s->begun)
		hpack_asks(c, &s->list[(s->begun - 1) & (FRAMES - 1)]);
	return 0;
}

/* Of sent frames before requests begin; of received ones, whose blocks were read, what ends them. */
__noinline int headers_follow(struct conn *c, u32 hook)
{
	struct frame_scratch *s = frames_of(hook);
	struct headers_of of = {.c = c, .hook = hook};
	if (!c || !s)
		return 0;
	s->begun = 0;
	bpf_loop(FRAMES, headers_step, &of, 0);
	return 0;
}

/* Whether headers matter. */
INLINE bool headers_matter(const struct conn *c)
{
	return c->http2.hpack == HPACK_FOLLOWED || c->http2.noted;
}

#endif
