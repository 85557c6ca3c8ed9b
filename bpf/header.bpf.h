/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Linking by a correlation header, for calls that nothing else links: the application forwards a
 * header (x-request-id, traceparent …) of the request that it received. The values that the
 * requests of a service came with are noted, sampled or not, while they are in flight; a call that
 * carries one of them is linked if exactly one request can have it:
 *
 *	receive of a request       → its values are in flight
 *	call with a value          → in flight once: linked; more than once, or doubtful: not linked
 *	response, or end of the
 *	connection                 → the values are past
 *
 * A value is doubtful, and links nothing
 *
 *	if it came again in another trace, or after a request that failed or was given up: the
 *	application may still work for the one before;
 *	if it came again in the same trace, unless the service has sent its calls in time so far;
 *	if the service sent it while no request had it: it is the service's own;
 *	while any request of the service is in flight whose header was not read to its end
 *	(svc->blind): that may have the same.
 *
 * Nothing of this runs before the service has made a call that is not linked and carries such a
 * header. Names are compared without regard to case, values byte by byte and under any of the names.
 */
#ifndef TARE_HEADER_H
#define TARE_HEADER_H

#define HEADER_SCAN    4096 /* bytes of a request that are looked at */
#define HEADER_LINES   64
#define HEADER_BUFFERS 64	  /* that they are sent from */
#define HEADER_SHORT   8	  /* a shorter value is not one request's */
#define HEADER_LONG    128	  /* a longer one is not compared */
#define HEADER_SETTLE  2000000000 /* ns, in which requests end that were not noted */
#define HEADER_PROOFS  32	  /* calls in time, before values may come again */

/* Which names there are; by the agent. Bytes in lower case, zeroes behind the colon. */
struct header_names {
	struct header_name at[TARE_HEADERS];
	u32 n;
	u32 pad;
	u8 fixed[HPACK_FIXED + 3]; /* number + 1 of the name that a field of HPACK's table has, and
				      TARE_HEADER_SPLIT; 0: none of them */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct header_names);
} header_names SEC(".maps");

struct header_key {
	u64 value; /* hash */
	u32 service;
	u32 pad;
};

/* A value in flight. */
struct header_value {
	struct context ctx; /* of the first request that has it, if that is sampled */
	s32 open;	    /* requests that have it; 0: it is being removed */
	u8 several;	    /* more than one had it at once */
	u8 again;	    /* it was in flight before */
	u8 doubtful;
	u8 pad;
};

/* If there is no room for a value, its request counts as blind. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct header_key);
	__type(value, struct header_value);
} header_values SEC(".maps");

struct header_past {
	u64 hi, lo; /* the trace; 0: not sampled */
	u32 doubtful;
	u32 pad;
};

/* Values that were in flight lately, and services' own; the oldest give way. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct header_key);
	__type(value, struct header_past);
} header_pasts SEC(".maps");

/* What was found in a request. */
struct header_scan {
	u8 bytes[2 * HEADER_SCAN + 256]; /* room for reads behind the end: zeroes or stale bytes */
	u64 value[HEADER_VALUES];
	u8 name[HEADER_VALUES]; /* index of the header that it was found in first */
	u16 line[HEADER_LINES]; /* where lines begin */
	u32 len, lines, n;
	u32 wanted; /* bits of names */
	u32 ended;  /* where the header ends; 0: not in what was read */
	u32 more;   /* there are more values than room */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* enum hook */
	__type(key, u32);
	__type(value, struct header_scan);
} header_scans SEC(".maps");

INLINE struct header_scan *header_scan_in(u32 hook)
{
	return bpf_map_lookup_elem(&header_scans, &hook);
}

/* ---- what a request carries ---- */

/* Not aligned, which both architectures load. */
INLINE u64 word_at(const u8 *p)
{
	return *(const u64 *)p;
}

/* The bytes of a word that are zero, as the top bits of them; the lowest of these is exact. */
INLINE u64 zero_bytes(u64 w)
{
	return (w - PAYLOAD_ONES) & ~w & 0x80 * PAYLOAD_ONES;
}

/* Where in a request something is read. */
struct header_walk {
	u64 at, hash, n, separator;
	u32 hook;
	u32 ended, name;
	u32 pad;
};

/* Eight bytes of a value. */
static int header_word(u32 i, struct header_walk *walk)
{
	struct header_scan *s = header_scan_in(walk->hook);
	u64 at = walk->at;
	if (!s || at >= HEADER_SCAN + HEADER_LONG)
		return 1;
	at = AT_MOST(at, HEADER_SCAN + HEADER_LONG);
	u64 w = word_at(&s->bytes[at]);
	u64 ends = zero_bytes(w ^ '\r' * PAYLOAD_ONES) | zero_bytes(w ^ '\n' * PAYLOAD_ONES) |
		   zero_bytes(w ^ walk->separator * PAYLOAD_ONES);
	u64 below = ((ends & -ends) >> 7) - 1; /* of the first of these bytes */
	u64 hash = (walk->hash ^ (w & below)) * FNV_PRIME;
	walk->hash = hash ^ hash >> 32;
	walk->n += mask_bytes(below);
	walk->at = at + 8;
	walk->ended = ends != 0;
	return walk->ended;
}

/* The hash of the value that begins at, of the header with that index; 0: it is not compared. */
INLINE u64 header_hash(u32 hook, u32 at, u32 index)
{
	struct header_scan *s = header_scan_in(hook);
	u32 zero = 0;
	struct header_names *names = bpf_map_lookup_elem(&header_names, &zero);
	if (!s || !names)
		return 0;
	u64 i = AT_MOST(index, TARE_HEADERS - 1), start = AT_MOST(at, HEADER_SCAN - 1);
	const struct header_name *name = &names->at[i];
	u32 from = start + payload_space(&s->bytes[start]) + name->skip;
	struct header_walk walk = {
	    .at = from, .hash = FNV_BASIS, .separator = name->separator, .hook = hook};
	bpf_loop(HEADER_LONG / 8, header_word, &walk, 0);
	if (!walk.ended || walk.n < HEADER_SHORT || from + walk.n >= s->len)
		return 0;
	return walk.hash ?: 1;
}

/* Takes it. */
__noinline int header_take(u32 hook, u32 at, u32 index)
{
	struct header_scan *s = header_scan_in(hook);
	u64 hash = header_hash(hook, at, index);
	if (!s || !hash)
		return 0;
	for (u32 j = 0; j < HEADER_VALUES; j++) {
		if (j < s->n && s->value[j] == hash)
			return 0;
		if (j == s->n) {
			s->value[j] = hash;
			s->name[j] = index;
			s->n++;
			return 0;
		}
	}
	s->more = 1;
	return 0;
}

/* Is it this name? */
static int header_name_is(u32 i, struct header_walk *walk)
{
	struct header_scan *s = header_scan_in(walk->hook);
	u32 zero = 0;
	struct header_names *names = bpf_map_lookup_elem(&header_names, &zero);
	u64 at = walk->at;
	if (!s || !names || i >= names->n)
		return 1;
	u64 index = AT_MOST(i, TARE_HEADERS - 1);
	const struct header_name *name = &names->at[index];
	const u8 *p = &s->bytes[AT_MOST(at, HEADER_SCAN)];
	if (((word_at(p) | PAYLOAD_CASE) ^ name->word[0]) & name->mask[0])
		return 0;
	u64 differ = 0;
	for (u32 j = 1; j < TARE_HEADER_WORDS; j++)
		differ |= ((word_at(p + 8 * j) | PAYLOAD_CASE) ^ name->word[j]) & name->mask[j];
	if (differ || !(s->wanted >> i & 1))
		return 0;
	walk->n = name->len;
	walk->name = i;
	return 1;
}

/* Looks at one of the lines. */
static int header_line(u32 i, u32 *hook)
{
	struct header_scan *s = header_scan_in(*hook);
	if (!s || i >= s->lines)
		return 1;
	u64 index = AT_MOST(i, HEADER_LINES - 1);
	struct header_walk walk = {.at = s->line[index], .hook = *hook};
	bpf_loop(TARE_HEADERS, header_name_is, &walk, 0);
	if (walk.n)
		header_take(*hook, walk.at + walk.n, walk.name);
	return 0;
}

/* Notes where lines begin, behind the line ends among the 8 bytes at. */
__noinline int header_lines(u32 hook, u32 at)
{
	struct header_scan *s = header_scan_in(hook);
	if (!s)
		return 0;
	u64 from = AT_MOST(at, HEADER_SCAN - 8);
	for (u32 i = 0; i < 8; i++) {
		u64 line = from + i + 1;
		u32 n = s->lines;
		u8 *p = &s->bytes[line];
		if (p[-1] != '\n')
			continue;
		u32 end = is_zero(p[0] ^ '\n') + 2 * is_zero((p[0] ^ '\r') | (p[1] ^ '\n'));
		if (line + (end ?: 1) > s->len || n >= HEADER_LINES)
			return 0;
		if (end) { /* an empty line */
			s->ended = line + end;
			return 0;
		}
		u64 place = AT_MOST(n, HEADER_LINES - 1);
		s->line[place] = line;
		s->lines = n + 1;
	}
	return 0;
}

#define HEADER_BLOCK 32

static int header_block(u32 i, u32 *hook)
{
	struct header_scan *s = header_scan_in(*hook);
	u64 at = (u64)i * HEADER_BLOCK;
	if (!s || at >= HEADER_SCAN || at >= s->len || s->ended)
		return 1;
	at = AT_MOST(at, HEADER_SCAN - HEADER_BLOCK);
	for (u32 j = 0; j < HEADER_BLOCK; j += 8)
		if (has_newline(payload_eight(&s->bytes[at + j])) && !s->ended)
			header_lines(*hook, at + j);
	return 0;
}

/* A message in several buffers: have bytes of it are there, and the next buffer is described at. */
struct header_gather {
	u64 at, have, size;
	u32 hook;
};

static int header_buffer(u32 i, struct header_gather *g)
{
	struct header_scan *s = header_scan_in(g->hook);
	struct iovec v = {};
	u64 have = g->have;
	if (!s || have >= g->size || have >= HEADER_SCAN ||
	    bpf_probe_read_kernel(&v, sizeof(v), (void *)g->at))
		return 1;
	u64 len = v.iov_len < g->size - have ? v.iov_len : g->size - have;
	len = AT_MOST(len, HEADER_SCAN);
	have = AT_MOST(have, HEADER_SCAN);
	if (len && bpf_probe_read_user(&s->bytes[have], len, v.iov_base))
		return 1;
	g->have = have + len;
	g->at += sizeof(v);
	return 0;
}

/* enum payload_kind of the bytes in which values are looked for, from at on. */
__noinline int header_kind(u32 hook, u32 at, u32 len)
{
	struct header_scan *s = header_scan_in(hook);
	if (!s)
		return PAYLOAD_OTHER;
	u64 from = AT_MOST(at, HEADER_SCAN);
	u8 first = s->bytes[from];
	if (len < HEAD)
		return first >= 'A' && first <= 'Z' ? PAYLOAD_HTTP_PIECE : PAYLOAD_OTHER;
	return payload_kind(&s->bytes[from], len);
}

/*
 * Looks for values in what is received or sent; buffers: where the kernel has the second struct
 * iovec. Returns enum payload_kind of it.
 */
__noinline int header_find(u32 hook, const struct bytes *b, u64 buffers, u32 wanted)
{
	struct header_scan *s = header_scan_in(hook);
	if (!s || !b)
		return PAYLOAD_OTHER;
	s->n = s->lines = s->ended = s->more = 0;
	s->wanted = wanted;
	u64 len = AT_MOST(b->len, HEADER_SCAN);
	if (!cfg_payload || !b->data || !len || bpf_probe_read_user(s->bytes, len, b->data))
		return PAYLOAD_OTHER;
	if (buffers && b->len < b->size) {
		struct header_gather g = {
		    .at = buffers, .have = len, .size = b->size, .hook = hook};
		bpf_loop(HEADER_BUFFERS, header_buffer, &g, 0);
		len = AT_MOST(g.have, HEADER_SCAN);
	}
	int kind = header_kind(hook, 0, len);
	if (kind != PAYLOAD_HTTP_REQUEST)
		return kind;
	s->len = len;
	bpf_loop(HEADER_SCAN / HEADER_BLOCK, header_block, &hook, 0);
	bpf_loop(HEADER_LINES, header_line, &hook, 0);
	return kind;
}

/* ---- values in flight ---- */

INLINE bool same_trace(u64 hi, u64 lo, const struct context *ctx)
{
	return ctx->span && hi == ctx->hi && lo == ctx->lo;
}

/* A request has the value; false: that cannot be noted. */
__noinline int header_note(struct conn *c, u64 value, const struct context *ctx)
{
	if (!c || !ctx)
		return false;
	struct header_key key = {.value = value, .service = c->service};
	struct header_value *v = bpf_map_lookup_elem(&header_values, &key);
	if (!v) {
		struct header_value new = {.open = 1};
		struct header_past *past = bpf_map_lookup_elem(&header_pasts, &key);
		if (ctx->span)
			new.ctx = *ctx;
		new.again = past != 0;
		new.doubtful = past && (past->doubtful || !same_trace(past->hi, past->lo, ctx));
		if (!bpf_map_update_elem(&header_values, &key, &new, BPF_NOEXIST))
			return true;
		v = bpf_map_lookup_elem(&header_values, &key);
		if (!v)
			return false;
	}
	v->several = 1;
	if (!v->ctx.span || !same_trace(v->ctx.hi, v->ctx.lo, ctx))
		v->doubtful = 1;
	for (u32 i = 0; i < TRIES; i++) {
		s32 open = v->open;
		if (open <= 0)
			return false;
		if (__sync_val_compare_and_swap(&v->open, open, open + 1) == open)
			return true;
	}
	return false;
}

/* A request that has the value is over. */
__noinline int header_leave(struct conn *c, u64 value, u32 doubtful)
{
	if (!c)
		return 0;
	struct header_key key = {.value = value, .service = c->service};
	struct header_value *v = bpf_map_lookup_elem(&header_values, &key);
	if (!v)
		return 0;
	if (doubtful)
		v->doubtful = 1;
	if (__sync_fetch_and_add(&v->open, -1) != 1)
		return 0;
	struct header_past past = {.doubtful = v->doubtful};
	if (v->ctx.span) {
		past.hi = v->ctx.hi;
		past.lo = v->ctx.lo;
	}
	bpf_map_update_elem(&header_pasts, &key, &past, BPF_ANY);
	bpf_map_delete_elem(&header_values, &key);
	return 0;
}

INLINE void header_blind(struct conn *c, struct service_state *svc)
{
	if (c->flags & C_BLIND)
		return;
	c->flags |= C_BLIND;
	__sync_fetch_and_add(&svc->blind, 1);
}

__noinline int header_forget(struct conn *c, const struct bytes *b)
{
	u8 head[HEAD] = {};
	if (!c)
		return 0;
	struct service_state *svc = service_of(c->service);
	if (c->flags & C_BLIND && svc && svc->blind > 0)
		__sync_fetch_and_add(&svc->blind, -1);
	if (c->flags & C_NOTED) {
		u32 class = b && read_head(head, b) == HEAD ? payload_status_class(head) : 0;
		for (u32 i = 0; i < HEADER_VALUES; i++) {
			if (c->server.value[i])
				header_leave(c, c->server.value[i], class != 2 && class != 3);
			c->server.value[i] = 0;
		}
	}
	c->flags &= ~(C_NOTED | C_BLIND);
	return 0;
}

/*
 * The request of a connection is over; b: its answer, if there is one. One that failed may be asked
 * again while the application still works for it.
 */
INLINE void header_over(struct conn *c, const struct bytes *b)
{
	if (c->flags & (C_NOTED | C_BLIND))
		header_forget(c, b);
}

/* The header of what came is not known, or not whole, though it may be a request of HTTP. */
__noinline int header_unread(const struct conn *c, const struct bytes *b, u32 kind)
{
	struct header_scan *s = header_scan_in(HOOK_RECEIVES);
	if (!c || !b || !s || c->flags & (C_TLS | C_FASTCGI) || !b->data)
		return true;
	u32 first = s->bytes[0], end = s->ended;
	if (kind != PAYLOAD_HTTP_REQUEST)
		return c->flags & C_HTTP || (first >= 'A' && first <= 'Z');
	if (!end || s->more)
		return true;
	return end + HEAD <= b->len && /* there may be another behind it */
	       header_kind(HOOK_RECEIVES, end, HEAD) == PAYLOAD_HTTP_REQUEST;
}

__noinline int header_notes(struct conn *c, struct bytes *b)
{
	if (!c || !b)
		return 0;
	struct service_state *svc = service_of(c->service);
	if (!svc || !svc->headers_since)
		return 0;
	struct header_scan *s = header_scan_in(HOOK_RECEIVES);
	if (!s)
		return 0;
	received_bytes(c, b);
	int kind = header_find(HOOK_RECEIVES, b, 0, svc->headers);
	if (header_unread(c, b, kind))
		header_blind(c, svc);
	for (u32 i = 0; i < HEADER_VALUES; i++) {
		if (i >= s->n)
			break;
		if (!header_note(c, s->value[i], &c->server.x.ctx)) {
			header_blind(c, svc);
			continue;
		}
		c->server.value[i] = s->value[i];
		c->flags |= C_NOTED;
	}
	return 0;
}

/* A request begins on an accepted connection, sampled or not. */
INLINE void header_received(struct conn *c, struct bytes *b)
{
	header_over(c, 0);
	if (headers_noted)
		header_notes(c, b);
}

/* The same of one whose bytes were read before its turn came. */
__noinline int header_unseen(struct conn *c)
{
	if (!c)
		return 0;
	header_over(c, 0);
	struct service_state *svc = service_of(c->service);
	if (svc && svc->headers_since)
		header_blind(c, svc);
	return 0;
}

/* A connection has HTTP/2: if its headers are not followed, until it ends. */
INLINE void header_received_http2(struct conn *c)
{
	bool known = c->http2.hpack == HPACK_FOLLOWED || c->flags & C_BLIND;
	struct service_state *svc = known ? 0 : service_of(c->service);
	if (svc && svc->headers_since)
		header_blind(c, svc);
}

/* ---- calls ---- */

enum header_hits { HEADER_NONE, HEADER_ONE, HEADER_SEVERAL };

/* Whose the value is: its context, or only that it is nobody's or may be several requests'. */
__noinline int header_whose(struct conn *c, u64 value, struct context *ctx)
{
	struct service_state *svc = c ? service_of(c->service) : 0;
	if (!c || !svc || !ctx)
		return HEADER_NONE;
	struct header_key key = {.value = value, .service = c->service};
	struct header_value *v = bpf_map_lookup_elem(&header_values, &key);
	if (!v) {
		struct header_past own = {.doubtful = 1};
		struct header_past *past = bpf_map_lookup_elem(&header_pasts, &key);
		if (past && !past->doubtful)
			svc->headers_late = 1; /* sent for a request that is over */
		if (!past || !past->doubtful)
			bpf_map_update_elem(&header_pasts, &key, &own, BPF_ANY);
		return HEADER_NONE;
	}
	bool punctual = !svc->headers_late && svc->headers_linked >= HEADER_PROOFS;
	/* Of several, the one that is left need not be the first. */
	if (v->open != 1 || v->several || v->doubtful || (v->again && !punctual))
		return HEADER_SEVERAL;
	*ctx = v->ctx;
	return HEADER_ONE;
}

/* The first call that is linked so is told, with the name. */
INLINE void header_linked(struct conn *c, struct service_state *svc, u32 name)
{
	if (svc->headers_linked < HEADER_PROOFS)
		svc->headers_linked++;
	if (svc->headers_told)
		return;
	svc->headers_told = 1;
	struct control_record r = {
	    .type = TARE_LINKS, .service = c->service, .reason = WORKER_HEADER, .port = name};
	control_tell(&r);
}

/* Whose request the values are of that were found in a call. */
__noinline int header_decides(struct conn *c, u32 why, struct context *ctx)
{
	struct header_scan *s = header_scan_in(HOOK_SENDS);
	struct service_state *svc = c ? service_of(c->service) : 0;
	struct context one = {};
	u32 ones = 0, several = 0, name = 0;
	if (!c || !s || !svc || !ctx)
		return why;
	for (u32 i = 0; i < HEADER_VALUES; i++) {
		if (i >= s->n)
			break;
		int hits = header_whose(c, s->value[i], &one);
		several |= hits == HEADER_SEVERAL;
		if (hits != HEADER_ONE)
			continue;
		if (ones && one.span != ctx->span) {
			ctx->span = 0;
			return TARE_UNLINKED_HEADER;
		}
		*ctx = one;
		name = s->name[i];
		ones = 1;
	}
	if (!ones)
		return several ? TARE_UNLINKED_HEADER : why;
	if (svc->blind > 0) {
		ctx->span = 0;
		return TARE_UNLINKED_HEADER;
	}
	c->flags |= C_BY_HEADER;
	if (ctx->span)
		header_linked(c, svc, name);
	return 0;
}

/* The service sends values, so that its requests are noted; whether those in flight are by now. */
INLINE bool header_begun(struct service_state *svc)
{
	u64 now = bpf_ktime_get_ns();
	if (!svc->headers_since) {
		svc->headers_since = now;
		headers_noted = true;
	}
	return now - svc->headers_since >= HEADER_SETTLE;
}

/*
 * A call that nothing else links, for why. Returns 0 and the context of the request that caused it,
 * span 0 if that is not sampled; or enum unlinked.
 */
__noinline int header_asks(struct conn *c, const struct tcp_view *v, const struct bytes *b, u32 why,
			   struct context *ctx)
{
	struct header_scan *s = header_scan_in(HOOK_SENDS);
	if (!c || !v || !b || !ctx || !s)
		return why;
	struct service_state *svc = service_of(c->service);
	if (!cfg_payload || !svc || !svc->headers || !svc->in_flight ||
	    !(c->linking == TARE_LINK_NONE || by_thread(c)))
		return why;
	int kind = header_find(HOOK_SENDS, b, v->more, svc->headers);
	if (kind != PAYLOAD_HTTP_REQUEST && c->flags & C_HTTP && c->client.x.span &&
	    c->flags & C_BY_HEADER) { /* the answer began before the body was sent */
		*ctx = c->client.x.caller;
		return 0;
	}
	c->flags &= ~C_BY_HEADER;
	if (!s->n)
		return why;
	return header_begun(svc) ? header_decides(c, why, ctx) : why;
}

/* Calls of the service are linked so. */
INLINE bool header_links(const struct conn *c)
{
	struct service_state *svc = service_of(c->service);
	return svc && svc->headers_told;
}

#endif
