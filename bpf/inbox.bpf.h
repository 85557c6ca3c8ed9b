/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the connecting end tells an accepted connection without a TCP option. It has an inbox, which
 * is found by the sequence numbers at which both streams begin.
 *
 *	tag       the context of the request that begins at a position
 *	promise   from a position on, sampled requests carry a tag
 *	behind    from a position on they may not: the client's service cannot link them
 *
 * These are the tag and the two marks of tag.h. A note is read when the application reads at its
 * position, so it concerns the requests behind it; of several that one call reads, the last holds
 * for all.
 *
 * Both ends on one host: notes go from socket to socket, and nothing of them over the wire. Both
 * ends know the two sequence numbers, which no translation of addresses rewrites, in whatever
 * network namespaces they are. What rewrites them (SYNPROXY, proxies of TCP) leaves the inbox
 * unfound, and the wire is used. With TARE_TAG_IP, what came in IP headers is noted here, too.
 *
 * One reader, with the server's socket locked. Writers lock nothing of it: the client's hooks, and
 * on any CPU what sees packets arrive. So a writer takes a place by an atomic operation, and shows
 * its note by another one when it is whole; the order of places means nothing.
 */
#ifndef TARE_INBOX_H
#define TARE_INBOX_H

enum note_kind {
	NOTE_TAG,
	NOTE_PROMISE,
	NOTE_BEHIND,
	NOTE_KINDS = 3,
	NOTE_WIRE = 4, /* and it came over the wire: to be answered there */
};

struct note {
	union {
		struct tag_context ctx;
		u8 name[MARK_NAME];
	};
	u32 start; /* sequence number of the first byte that it concerns */
	u32 kind;
};

#define NOTES	     8 /* a power of two */
#define SEEKS	     4 /* requests of a client with which it looks: the first may overtake its handshake */
#define INBOX_CLOSED (1u << 31)

struct inbox {
	struct streams of; /* whose it is; zeroes: nobody's any more */
	u32 used, ready;   /* a bit for each note; ready: INBOX_CLOSED */
	u64 last;	   /* span of the last tag that came over the wire */
	u32 last_start;	   /* and its position */
	u32 pad;
	struct note notes[NOTES];
};

static const struct inbox inbox_empty;

/* A connection that finds no room here is told over the wire. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct streams);
	__type(value, struct inbox);
} inboxes SEC(".maps");

/* Notes that are not read yet; the gate of the receive path. */
u64 notes_unread __attribute__((aligned(64))) SEC(".data.live");

INLINE struct inbox *inbox_at(const struct streams *s)
{
	struct streams key = *s;
	return bpf_map_lookup_elem(&inboxes, &key);
}

INLINE struct inbox *inbox_of(const struct conn *c)
{
	return inbox_at(&c->streams);
}

INLINE u64 inbox_owner(const struct streams *s)
{
	return *(const u64 *)s;
}

#define HAVE_INBOXES (cfg_same_host || cfg_tag == TARE_TAG_IP)

/*
 * What is deleted may be another connection's at once, while a writer still holds it. So the last
 * one deletes it: the server, or a writer that has taken a place.
 */
INLINE void inbox_delete(struct inbox *in, const struct streams *s)
{
	struct streams key = *s;
	u64 owner = inbox_owner(&key);
	u32 ready = __sync_fetch_and_add(&in->ready, 0);
	if (!(ready & INBOX_CLOSED) ||
	    __sync_fetch_and_add(&in->used, 0) != (ready & ~INBOX_CLOSED))
		return;
	if (__sync_val_compare_and_swap((u64 *)&in->of, owner, 0) == owner)
		bpf_map_delete_elem(&inboxes, &key);
}

/* Its connection ends, or nothing on it will be traced. */
INLINE void inbox_close(struct conn *c)
{
	struct inbox *in = HAVE_INBOXES ? inbox_of(c) : 0;
	if (!in)
		return;
	u32 ready = __sync_fetch_and_or(&in->ready, INBOX_CLOSED);
	if (ready & INBOX_CLOSED)
		return;
	u64 unread = 0;
	for (u32 i = 0; i < NOTES; i++)
		unread += ready >> i & 1;
	if (unread)
		__sync_fetch_and_add(&notes_unread, -unread);
	inbox_delete(in, &c->streams);
}

INLINE void inbox_free(struct inbox *in, u32 place)
{
	__sync_fetch_and_and(&in->used, ~(1u << place));
}

/* A place for a note; NOTES: there is none. */
INLINE u32 inbox_place(struct inbox *in, const struct streams *s)
{
	u32 i = 0;
	while (i < NOTES &&
	       (in->used & 1u << i || __sync_fetch_and_or(&in->used, 1u << i) & 1u << i))
		i++;
	if (i >= NOTES) {
		count(TARE_C_TAG_QUEUE_FULL);
		return NOTES;
	}
	struct streams key = *s;
	u64 of = __sync_fetch_and_add((u64 *)&in->of, 0);
	if (of == inbox_owner(&key) && !(__sync_fetch_and_add(&in->ready, 0) & INBOX_CLOSED))
		return i;
	inbox_free(in, i);
	inbox_delete(in, s);
	return NOTES;
}

/* Returns whether the reader will see it. */
__noinline int inbox_write(struct inbox *in, const struct streams *s, const struct note *note)
{
	if (!in || !s || !note)
		return 0;
	u32 i = inbox_place(in, s);
	if (i >= NOTES)
		return 0;
	in->notes[i & (NOTES - 1)] = *note;
	__sync_fetch_and_add(&notes_unread, 1);
	if (__sync_fetch_and_or(&in->ready, 1u << i) & INBOX_CLOSED) {
		__sync_fetch_and_add(&notes_unread, -1);
		inbox_delete(in, s);
		return 0;
	}
	return 1;
}

/*
 * Where nothing goes over the wire, a first request that is sent before the other end has its inbox
 * (it overtakes the handshake, or completes it: TCP_DEFER_ACCEPT) is told here. Who opens no inbox
 * leaves it; it gives way to newer ones.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct streams);
	__type(value, struct note);
} early_notes SEC(".maps");

/* A connected end that writes nothing to the wire. */
INLINE bool within_host(const struct conn *c)
{
	return c->flags & (C_LOCAL | C_NEAR);
}

/* It knows no inbox, and has looked for one so often. */
INLINE bool early(const struct conn *c, u32 seeks)
{
	return (c->flags & (C_NEAR | C_LOCAL)) == C_NEAR && c->seeks == seeks;
}

/* Returns whether it was told, here or in the inbox, which may have been opened by now. */
__noinline int early_leave(const struct streams *s, const struct note *n)
{
	if (!s || !n)
		return 0;
	struct streams key = *s;
	struct note note = *n; /* Linux 6.1 takes no pointer here that a function was given */
	if (bpf_map_update_elem(&early_notes, &key, &note, BPF_ANY))
		return 0;
	struct inbox *in = inbox_at(s);
	return !in || bpf_map_delete_elem(&early_notes, &key) || inbox_write(in, s, n);
}

__noinline int early_tell(const struct conn *c, u32 kind, u32 start, const struct tag_context *ctx)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	struct note n = {.start = start, .kind = kind};
	if (!svc)
		return 0;
	if (ctx)
		n.ctx = *ctx;
	else
		__builtin_memcpy(n.name, svc->name, MARK_NAME);
	if (!early_leave(&c->streams, &n))
		return 0;
	if (ctx)
		count(TARE_C_TAG_SENT);
	return 1;
}

/* What was told before the inbox was there. */
__noinline int early_take(const struct conn *c)
{
	struct inbox *in = c ? inbox_of(c) : 0;
	if (!in)
		return 0;
	struct streams key = c->streams;
	struct note *told = bpf_map_lookup_elem(&early_notes, &key);
	if (!told)
		return 0;
	struct note n = *told;
	if (!bpf_map_delete_elem(&early_notes, &key))
		inbox_write(in, &c->streams, &n);
	return 0;
}

/* An accepted connection whose peer is trusted, or may be on this host. */
INLINE void inbox_open(struct conn *c)
{
	struct streams key = c->streams;
	if (!HAVE_INBOXES || !(c->flags & (C_TRUSTED | C_NEAR)) ||
	    bpf_map_update_elem(&inboxes, &key, &inbox_empty, BPF_NOEXIST))
		return;
	struct inbox *in = inbox_of(c);
	if (in)
		__sync_lock_test_and_set((u64 *)&in->of, inbox_owner(&key));
	if (c->flags & C_NEAR || cfg_tag == TARE_TAG_IP)
		early_take(c);
}

/* A request begins at start. Returns whether its tag was left there. */
__noinline int inbox_tag(const struct conn *c, const struct context *ctx, u32 start)
{
	if (!c || !ctx)
		return 0;
	struct note n = {.start = start, .kind = NOTE_TAG};
	n.ctx.hi = ctx->hi;
	n.ctx.lo = ctx->lo;
	n.ctx.span = ctx->span;
	n.ctx.flags = is_retro(ctx->span) ? TAG_RETRO : 0;
	if (!(c->flags & C_LOCAL))
		return early(c, 1) && early_tell(c, NOTE_TAG, start, &n.ctx);
	struct inbox *in = inbox_of(c);
	bool left = in && inbox_write(in, &c->streams, &n);
	if (left)
		count(TARE_C_TAG_SENT);
	else if (!in) /* else it was full, and counted, or is being closed */
		count(TARE_C_TAG_NO_ROOM);
	return left;
}

/* From start on, sampled requests carry tags, or may not. Returns whether the inbox tells that. */
__noinline int inbox_promise(const struct conn *c, u32 silent, u32 start)
{
	struct inbox *in = c ? inbox_of(c) : 0;
	struct service_state *svc = in ? service_of(c->service) : 0;
	u32 kind = silent ? NOTE_BEHIND : NOTE_PROMISE;
	if (!in && c && early(c, 0))
		early_tell(c, kind, start, 0);
	if (!svc)
		return 0;
	struct note n = {.start = start, .kind = kind};
	__builtin_memcpy(n.name, svc->name, MARK_NAME);
	return inbox_write(in, &c->streams, &n);
}

/*
 * Over the wire a mark comes in every segment of a large packet that was cut: it says nothing new if
 * the mark before it, not read yet, says the same.
 */
INLINE bool inbox_has_mark(const struct inbox *in, u32 kind, u32 start)
{
	u32 ready = in->ready, last = 0, same = false, any = false;
	for (u32 i = 0; i < NOTES; i++) {
		const struct note *n = &in->notes[i];
		if (!(ready & 1u << i) || n->kind == (NOTE_TAG | NOTE_WIRE) ||
		    before(start, n->start) || (any && before(n->start, last)))
			continue;
		any = true;
		last = n->start;
		same = n->kind == kind;
	}
	return same;
}

/*
 * The same of a connection's first bytes, while another CPU handles what completes its handshake: there
 * is no inbox yet.
 */
__noinline int early_came(const struct streams *s, const struct ip_said *said)
{
	if (!s || !said || (said->tag && !tag_counts(said->tag - 1, &said->ctx)))
		return 0;
	struct note n = {.start = s->up, .kind = NOTE_WIRE};
	if (said->tag) {
		if (!in_turn(bpf_ktime_get_ns()))
			return 0;
		n.kind |= NOTE_TAG;
		n.start += said->offset;
		n.ctx = said->ctx;
	} else {
		n.kind |= said->mark > MARK_LEN ? NOTE_BEHIND : NOTE_PROMISE;
		__builtin_memcpy(n.name, said->name, MARK_NAME);
	}
	early_leave(s, &n);
	return 0;
}

/* What an IP header said of bytes from seq on, of those that the application has not read. */
__noinline int inbox_came(const struct conn *c, const struct ip_said *said, u32 seq, u32 copied)
{
	struct inbox *in = c && said ? inbox_of(c) : 0;
	if (!in)
		return 0;
	bool tag = said->tag && tag_counts(said->tag - 1, &said->ctx),
	     mine = tag && in_turn(bpf_ktime_get_ns());
	struct note n = {
	    .start = seq + said->offset, .kind = NOTE_TAG | NOTE_WIRE, .ctx = said->ctx};
	if (mine) {
		bool copy = said->ctx.span == in->last && !before(n.start, in->last_start);
		if (before(n.start, copied)) {
			if (!copy && !tag_noted(said->ctx.span))
				count(TARE_C_TAG_STALE);
		} else if (!copy) {
			in->last = said->ctx.span;
			in->last_start = n.start;
			inbox_write(in, &c->streams, &n);
		}
	}
	/* not sampled, says another tracer; or not here */
	bool promise = ((said->tag == 1 + TAG_UNSAMPLED && !tag) || (tag && !mine)) && !said->mark;
	n.start = seq;
	n.kind = (said->mark > MARK_LEN ? NOTE_BEHIND : NOTE_PROMISE) | NOTE_WIRE;
	__builtin_memcpy(n.name, said->name, MARK_NAME);
	if (promise || (said->mark && !inbox_has_mark(in, n.kind, seq)))
		inbox_write(in, &c->streams, &n);
	return 0;
}

__noinline int inbox_take(struct conn *c, const struct note *n, u32 write_seq)
{
	if (!c || !n)
		return 0;
	u32 kind = n->kind & NOTE_KINDS;
	if (c->flags & C_NEAR && !(n->kind & NOTE_WIRE))
		c->flags |= C_TRUSTED;
	if (kind == NOTE_BEHIND)
		conn_behind(c, n->name);
	else
		conn_promised(c);
	if (kind == NOTE_TAG && !(c->flags & C_TRUSTED))
		count(TARE_C_TAG_UNTRUSTED);
	else if (kind == NOTE_TAG)
		rx_push(c, &n->ctx, n->start);
	if (n->kind & NOTE_WIRE && !(kind == NOTE_TAG && c->flags & C_ANSWERED)) {
		c->flags |= C_ANSWERED;
		conn_mark(c, write_seq);
	}
	return 0;
}

/* The note with the lowest position before one; NOTES: there is none. */
__noinline int inbox_next(struct inbox *in, u32 to)
{
	u32 first = 0, at = NOTES;
	u32 ready = in ? __sync_fetch_and_add(&in->ready, 0) : 0;
	for (u32 i = 0; i < NOTES && in; i++) {
		u32 start = in->notes[i].start;
		if (!(ready & 1u << i) || !before(start, to) ||
		    (at < NOTES && !before(start, first)))
			continue;
		first = start;
		at = i;
	}
	return at;
}

/* The application has read up to a position: what the client has told of that. */
__noinline int inbox_read(struct conn *c, u32 to, u32 write_seq)
{
	struct inbox *in = c ? inbox_of(c) : 0;
	if (!in)
		return 0;
	for (int n = 0; n < NOTES; n++) {
		u32 i = inbox_next(in, to);
		if (i >= NOTES)
			break;
		inbox_take(c, &in->notes[i & (NOTES - 1)], write_seq);
		__sync_fetch_and_and(&in->ready, ~(1u << i));
		inbox_free(in, i);
		__sync_fetch_and_add(&notes_unread, -1);
	}
	return 0;
}

/* A request that is linked, or of nobody's, changes nothing of what conn_promise has told. */
INLINE bool promise_stands(const struct conn *c)
{
	if (!(c->flags & (C_TRUSTED | C_NEAR)))
		return true;
	if (c->flags & C_LOCAL)
		return !(c->flags & C_SILENT);
	if (!(c->flags & C_TRUSTED))
		return c->seeks >= SEEKS;
	return cfg_tag != TARE_TAG_IP && c->seeks >= SEEKS &&
	       !(c->flags & (C_MARK | C_SILENT | C_FLIP));
}

/*
 * Whether tags are promised for the request that begins at a position of the size bytes which are
 * sent now. A change is told with its segment; but the size of segments has been settled by now, so if there is no room in it, with
 * a later one.
 */
INLINE void conn_promise(struct conn *c, bool promised, const struct tcp_view *v, u32 at, u32 size)
{
	u32 silent = promised ? 0 : C_SILENT;
	if (!(c->flags & (C_TRUSTED | C_NEAR)))
		return;
	if (c->family == AF_UNIX) { /* told with the request: unix.bpf.h */
		c->flags = (c->flags & ~C_SILENT) | silent;
		return;
	}
	bool joins =
	    cfg_same_host && !(c->flags & C_LOCAL) && (c->flags & C_MARK || c->seeks < SEEKS);
	bool changes = c->flags & C_LOCAL && (c->flags & C_SILENT) != silent;
	if ((joins || changes) && inbox_promise(c, silent, v->write_seq + at))
		c->flags = ((c->flags | C_LOCAL | C_PEER_TRACED | C_TRUSTED) &
			    ~(C_MARK | C_TOLD | C_FLIP | C_SILENT)) |
			   silent;
	if (c->flags & C_LOCAL)
		return;
	if (c->seeks < SEEKS)
		c->seeks++;
	if (!(c->flags & C_TRUSTED))
		return;
	if (cfg_tag == TARE_TAG_IP) {
		if ((c->flags & C_SILENT) != silent)
			conn_flip(c, v->write_seq);
		if (c->flags & C_MARK)
			path_open(c);
		return;
	}
	if ((c->flags & C_SILENT) == silent)
		c->flags &= ~C_FLIP;
	else if (v->write_seq - v->snd_una + size + MARK_ROOM <= v->mss)
		conn_flip(c, v->write_seq);
	else
		c->flags |= C_FLIP;
}

#endif
