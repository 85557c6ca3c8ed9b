/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How one end of an HTTP/2 connection tells the other which streams are sampled: their contexts
 * within a host, tags from the wire, and streams that a segment names since no tag has room for all
 * (tag.h). http2.bpf.h says when.
 */
#ifndef TARE_STREAMS_H
#define TARE_STREAMS_H

/* ---- tags of streams: within a host by the stream, from the wire by the position ---- */

struct stream_note_key {
	struct streams of;
	u32 stream; /* or where its HEADERS begin */
	u32 wire;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stream_note_key);
	__type(value, struct tag_context);
} stream_notes SEC(".maps");

u64 stream_notes_unread __attribute__((aligned(64))) SEC(".data.live");

__noinline int stream_tag(const struct conn *c, u32 stream, const struct context *ctx)
{
	if (!c || !ctx || !(c->flags & C_LOCAL || early(c, 1)))
		return false;
	struct stream_note_key k = {.of = c->streams, .stream = stream};
	struct tag_context t = {.hi = ctx->hi, .lo = ctx->lo, .span = ctx->span};
	t.flags = is_retro(ctx->span) ? TAG_RETRO : 0;
	if (bpf_map_update_elem(&stream_notes, &k, &t, BPF_ANY))
		return false;
	count(TARE_C_TAG_SENT);
	__sync_fetch_and_add(&stream_notes_unread, 1);
	return true;
}

INLINE bool stream_tagged(const struct conn *c, u32 stream, struct tag_context *t)
{
	if (!cfg_same_host || !*(volatile u64 *)&stream_notes_unread)
		return false;
	struct stream_note_key k = {.of = c->streams, .stream = stream};
	struct tag_context *held = bpf_map_lookup_elem(&stream_notes, &k);
	if (!held)
		return false;
	*t = *held;
	if (!bpf_map_delete_elem(&stream_notes, &k))
		__sync_fetch_and_add(&stream_notes_unread, -1);
	return true;
}

/* A segment has a tag: of more of them than an accepted socket keeps otherwise. */
INLINE void stream_tag_came(struct conn *c, const struct tag_context *t, u32 at)
{
	struct stream_note_key k = {.of = c->streams, .stream = at, .wire = 1};
	if (!bpf_map_update_elem(&stream_notes, &k, t, BPF_NOEXIST))
		c->http2.tags++;
}

INLINE bool stream_tag_at(struct conn *c, u32 at, struct tag_context *t)
{
	if (!c->http2.tags)
		return false;
	struct stream_note_key k = {.of = c->streams, .stream = at, .wire = 1};
	struct tag_context *held = bpf_map_lookup_elem(&stream_notes, &k);
	if (!held)
		return false;
	*t = *held;
	c->http2.tags--;
	bpf_map_delete_elem(&stream_notes, &k);
	return true;
}

/* ---- sampled streams of a segment, which a tag has no room for; tag.h ---- */

#define STREAMS_ASKED 4096 /* newest ones that a connected socket keeps */
#define STREAMS_AHEAD 4096 /* that an accepted one knows of before they are read */

/* Whether the context of a stream goes over the wire, and may have to be joined. */
INLINE bool streams_apart(const struct conn *c)
{
	return cfg_tag == TARE_TAG_TCP && (c->flags & (C_TRUSTED | C_LOCAL)) == C_TRUSTED;
}

/* Where in its connection's stream a request begins, up to 4 GiB; the same at both ends. */
INLINE void stream_position(const struct conn *c, struct start *a, u32 seq)
{
	a->offset = (u32)(seq - c->streams.up);
	a->sequence = seq;
}

struct stream_sent {
	u32 seq; /* where its HEADERS begin, or what of them is in a later write */
	u32 stream;
};

struct stream_asked {
	struct stream_sent sent[STREAMS_ASKED];
	struct tag_streams s; /* to be named, from the next on */
	struct tag_codes codes;
	u32 next, end; /* numbers in the ring */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* http2.id */
	__type(value, struct stream_asked);
} streams_asked SEC(".maps");

struct stream_told {
	u8 bits[STREAMS_AHEAD / 8]; /* by half of the stream's number */
	struct tag_streams s;	    /* that a segment names */
	struct tag_codes codes;
	u32 read; /* streams up to this one have begun */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* http2.id */
	__type(value, struct stream_told);
} streams_told SEC(".maps");

/* A sampled stream begins that a segment can name; false: no room to remember it. */
INLINE bool stream_push(struct conn *c, u32 stream, u32 seq)
{
	static const struct stream_asked none;
	u64 id = c->http2.id;
	if (!c->http2.asked)
		bpf_map_update_elem(&streams_asked, &id, &none, BPF_ANY);
	struct stream_asked *a = bpf_map_lookup_elem(&streams_asked, &id);
	if (!a) {
		count(TARE_C_STORAGE_FULL);
		return false;
	}
	a->sent[c->http2.asked++ % STREAMS_ASKED] =
	    (struct stream_sent){.seq = seq, .stream = stream};
	c->http2.asked_seq = seq;
	return true;
}

/* The number of the first kept stream that does not begin before a sequence number. */
struct stream_search {
	u64 id;
	u32 seq;
	u32 low, high;
};

/* They are in order: it is found by halves. */
static long stream_search_step(u64 i, struct stream_search *o)
{
	struct stream_asked *a = bpf_map_lookup_elem(&streams_asked, &o->id);
	if (!a || o->low == o->high)
		return 1;
	u32 middle = o->low + (o->high - o->low) / 2;
	if (before(a->sent[middle % STREAMS_ASKED].seq, o->seq))
		o->low = middle + 1;
	else
		o->high = middle;
	return 0;
}

INLINE u32 stream_from(const struct conn *c, u32 seq)
{
	struct stream_search o = {.id = c->http2.id, .seq = seq, .high = c->http2.asked};
	o.low = o.high > STREAMS_ASKED ? o.high - STREAMS_ASKED : 0;
	bpf_loop(32, stream_search_step, &o, 0);
	return o.low;
}

static long stream_names(u64 i, u64 *id)
{
	struct stream_asked *a = bpf_map_lookup_elem(&streams_asked, id);
	if (!a || a->next == a->end ||
	    !streams_add(&a->s, &a->codes, a->sent[a->next % STREAMS_ASKED].stream))
		return 1;
	a->next++;
	return 0;
}

/* How many sampled streams begin in so many bytes from seq on; the option that names them. */
__noinline int streams_in(struct conn *c, u32 seq, u32 size, struct tag_option *opt)
{
	if (!c || !opt)
		return 0;
	u64 id = c->http2.id;
	u32 next = stream_from(c, seq), end = stream_from(c, seq + size), n = end - next;
	struct stream_asked *a = bpf_map_lookup_elem(&streams_asked, &id);
	if (!a || !n)
		return 0;
	struct tag_streams *s = &a->s;
	__builtin_memset(s, 0, sizeof(*s));
	s->first = a->sent[next % STREAMS_ASKED].stream;
	u32 all = (a->sent[(end - 1) % STREAMS_ASKED].stream - s->first) / 2 + 1;
	if (all == n) {
		s->count = n;
	} else {
		s->codes[0] = streams_parameter(n, all - n);
		a->codes = streams_codes(s);
		a->next = next;
		a->end = end;
		bpf_loop(8 * STREAMS_CODES, stream_names, &id, 0);
		if (a->next != end)
			count(TARE_C_TAG_NO_ROOM);
	}
	streams_encode(opt, s);
	return n;
}

/*
 * A segment has named streams. What a step leaves for the next is in the map: of what is on the
 * stack, verifiers take the first step's values for all.
 */
static long stream_came(u64 i, u64 *id)
{
	struct stream_told *t = bpf_map_lookup_elem(&streams_told, id);
	if (!t)
		return 1;
	u32 stream = t->s.count ? t->s.first + 2 * (u32)i : streams_bit(&t->s, &t->codes);
	if (stream >> 31)
		return 1;
	if (!(stream & 1) || stream <= t->read || stream > t->read + 2 * STREAMS_AHEAD)
		return 0;
	u32 bit = stream / 2 % STREAMS_AHEAD;
	t->bits[bit / 8] |= 1 << (bit & 7);
	return 0;
}

__noinline int streams_came(struct conn *c, const struct tag_option *opt)
{
	static const struct stream_told none;
	if (!c || !opt)
		return 0;
	if (!c->http2.id)
		c->http2.id = random_id();
	u64 id = c->http2.id;
	bpf_map_update_elem(&streams_told, &id, &none, BPF_NOEXIST);
	struct stream_told *t = bpf_map_lookup_elem(&streams_told, &id);
	if (!t) {
		count(TARE_C_STORAGE_FULL);
		return 0;
	}
	c->http2.named = 1;
	if (streams_decode(opt, &t->s) != TAG_OK) {
		count(TARE_C_TAG_MALFORMED);
		return 0;
	}
	t->read = c->http2.last ?: t->s.first - 1;
	if (t->s.first > t->read + 2 * STREAMS_AHEAD) {
		count(TARE_C_TAG_OVERFLOW);
		return 0;
	}
	t->codes = streams_codes(&t->s);
	bpf_loop(t->s.count ?: 8 * (STREAMS_CODES - 1), stream_came, &id, 0);
	return 0;
}

/* Whether a stream that begins was named. */
INLINE bool stream_named(const struct conn *c, u32 stream)
{
	if (!c->http2.named)
		return false;
	u64 id = c->http2.id;
	u32 bit = stream / 2 % STREAMS_AHEAD;
	struct stream_told *t = bpf_map_lookup_elem(&streams_told, &id);
	if (!t || !(t->bits[bit / 8] >> (bit & 7) & 1))
		return false;
	t->bits[bit / 8] &= ~(1 << (bit & 7));
	return true;
}

INLINE void streams_forget(const struct conn *c)
{
	u64 id = c->http2.id;
	bpf_map_delete_elem(&streams_asked, &id);
	bpf_map_delete_elem(&streams_told, &id);
}

#endif
