/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a message lies in user memory, read-only.
 *
 * Sent: the message's iterator says so. Received: the hook has no such argument, but it runs
 * inside the system call that received, whose second argument is the buffer or leads to it.
 * io_uring and splice have no such buffer: their requests come out without a name.
 */
#ifndef TARE_BYTES_H
#define TARE_BYTES_H

/* The beginning of a message in user memory. */
struct bytes {
	const void *data; /* 0: not to be read */
	u32 len;	  /* of the first buffer, if there are several */
	u32 size;	  /* of the message */
};

/*
 * Before Linux 6.4 ubuf shares its place with iov, so that the verifier takes it for a pointer into
 * the kernel; and before 6.0 there is no ITER_UBUF.
 */
#define HAVE_UBUF  (bpf_core_enum_value_exists(enum iter_type, ITER_UBUF))
#define IS_UBUF(t) (HAVE_UBUF && (t) == bpf_core_enum_value(enum iter_type, ITER_UBUF))

/*
 * Where the b->size bytes lie that an iterator names; base: of the buffer, or the first struct iovec.
 * Returns where the second one is, if there is.
 */
INLINE u64 sent_bytes(struct bytes *b, u8 type, u64 base, u64 offset)
{
	if (IS_UBUF(type)) {
		b->data = (void *)(base + offset);
		b->len = b->size;
	} else if (type == bpf_core_enum_value(enum iter_type, ITER_IOVEC)) {
		struct iovec v = {};
		if (bpf_probe_read_kernel(&v, sizeof(v), (void *)base) || v.iov_len < offset)
			return 0;
		b->data = v.iov_base + offset;
		b->len = v.iov_len - offset;
		return base + sizeof(v);
	}
	return 0;
}

#define ITER_BASE(it, type, GET) (IS_UBUF(type) ? (u64)GET(it, ubuf) : (u64)GET(it, __iov))

INLINE u8 buffers_of(u64 n)
{
	return n < 256 ? n : 0;
}

/* Where the last of n struct iovec is, 0: unknown; second: what sent_bytes has returned. */
INLINE u64 last_buffer(u64 second, u8 n)
{
	return second && n > 1 ? second + (n - 2) * sizeof(struct iovec) : 0;
}

INLINE u64 old_iter_base(const struct iov_iter *it)
{
	return (u64)BPF_CORE_READ((struct iov_iter___before64 *)it, iov);
}

enum buffer_argument { BUFFER_NONE, BUFFER_PLAIN, BUFFER_IOVEC, BUFFER_MSGHDR };

INLINE enum buffer_argument buffer_argument(struct pt_regs *regs, u64 *arg, u64 *len)
{
#if defined(__TARGET_ARCH_x86)
	u64 nr = regs->orig_ax;
	*arg = regs->si;
	*len = regs->dx;
	switch (nr) {
	case 0:	 /* read */
	case 45: /* recvfrom */
		return BUFFER_PLAIN;
	case 19: /* readv */
		return BUFFER_IOVEC;
	case 47: /* recvmsg */
		return BUFFER_MSGHDR;
	}
#elif defined(__TARGET_ARCH_arm64)
	s32 nr = regs->syscallno;
	*arg = regs->regs[1];
	*len = regs->regs[2];
	switch (nr) {
	case 63:  /* read */
	case 207: /* recvfrom */
		return BUFFER_PLAIN;
	case 65: /* readv */
		return BUFFER_IOVEC;
	case 212: /* recvmsg */
		return BUFFER_MSGHDR;
	}
#endif
	return BUFFER_NONE;
}

/* User's struct user_msghdr begins with name, namelen (padded), iov on every 64-bit Linux. */
#define MSGHDR_IOV 16

/*
 * The hook fires for each piece that a call copies, and the call's arguments tell where the first
 * went. A call goes on while there is more to be read and its buffer has room, which received_bytes
 * sees. more: there is, as far as is known: of a segment that waits for the socket's lock, only that it came, and it may
 * bring nothing. So a call after something was sent is another one.
 */
INLINE void call_goes_on(struct conn *c, u32 size, bool more, u32 write_seq)
{
	bool goes_on = c->call_size && c->call_sent == write_seq;
	c->call_at = goes_on ? c->call_at + c->call_size : 0;
	c->call_size = more ? size : 0;
	c->call_sent = write_seq;
}

#define BUFFERS 4 /* of a call that receives, at most, whose room is known */

/* The buffers of a call that receives, as struct iovec in user memory. */
struct buffers {
	u64 iov, n;
	u64 base, len; /* where the bytes go that come next; no len: not known */
	u64 more;      /* the struct iovec behind that; 0: none */
	u64 room;      /* bytes in all of them */
};

/* Where the bytes go that come behind the first ones of the call. */
__noinline int buffer_at(struct buffers *w, u64 at)
{
	struct {
		u64 base, len;
	} v;
	if (!w)
		return 0;
	w->len = w->room = w->more = 0;
	for (u32 i = 0; i < BUFFERS && i < w->n; i++) {
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(w->iov + i * sizeof(v))))
			return 0;
		if (at >= w->room && at - w->room < v.len) {
			w->base = v.base + (at - w->room);
			w->len = v.len - (at - w->room);
			w->more = i + 1 < w->n ? w->iov + (i + 1) * sizeof(v) : 0;
		}
		w->room += v.len;
	}
	if (w->n > BUFFERS)
		w->room = ~0ULL;
	return 0;
}

/* Where the b->size bytes are that were just received; looked up once. */
__noinline int received_bytes(struct conn *c, struct bytes *b)
{
	struct buffers w = {};
	if (!c || !b || b->data)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	enum buffer_argument kind = buffer_argument(regs, &w.iov, &w.n);
	bool several = kind == BUFFER_IOVEC || kind == BUFFER_MSGHDR;
	if (kind == BUFFER_NONE)
		return 0;
	if (kind == BUFFER_MSGHDR && bpf_probe_read_user(&w, 16, (void *)(w.iov + MSGHDR_IOV)))
		return 0; /* its iov and iovlen */
	w.room = w.n;
	if (several)
		buffer_at(&w, c->call_at);
	if (c->call_at && c->call_at + b->size > w.room) {
		c->call_at = 0; /* the call before filled its buffer */
		if (several)
			buffer_at(&w, 0);
	}
	if (c->call_at + b->size >= w.room)
		c->call_size = 0; /* its buffer is full now: Go reads one byte ahead */
	if (!several) {
		w.base = w.iov + c->call_at;
		w.len = w.room - c->call_at;
	}
	c->call_more = w.more;
	b->data = w.len ? (void *)w.base : 0;
	b->len = w.len < b->size ? w.len : b->size;
	return 0;
}

/* The bytes behind the first n. */
INLINE struct bytes bytes_behind(struct bytes b, u32 n)
{
	b.data = b.data && n < b.len ? b.data + n : 0;
	b.len = n < b.len ? b.len - n : 0;
	b.size -= n;
	return b;
}

#define HEAD 12

/* The first bytes of a message, zeroes behind its end; how many there are. */
INLINE u32 read_head(u8 *head, const struct bytes *b)
{
	u64 len = AT_MOST(b->len, HEAD);
	__builtin_memset(head, 0, HEAD);
	if (!cfg_payload || !b->data || !len || bpf_probe_read_user(head, len, b->data))
		return 0;
	return len;
}

/* A body in chunks ends with an empty one: "0\r\n\r\n"; RFC 9112 7.1. */
#define LAST_CHUNK (PAYLOAD_EIGHT(0, 0, 0, '0', '\r', '\n', '\r', '\n'))

INLINE u8 is_http(const struct conn *c)
{
	return c->flags / C_HTTP & 1;
}

/* The bytes end as a body in chunks does, perhaps behind trailers: "value\r\n\r\n". A chunk may end so, too, but few do. */
INLINE bool chunks_end(u64 tail)
{
	return tail >> 32 == PAYLOAD_WORD('\r', '\n', '\r', '\n') && (tail >> 24 & 0xff) != '\n';
}

/*
 * More of a response, or its beginning; last: where the kernel has the struct iovec of its last
 * buffer, 0: unknown if there are several. Returns TARE_NO_LAST_CHUNK if it is known not to end as a
 * body in chunks does, and 0.
 */
__noinline int chunks_go_on(struct conn *c, const struct bytes *b, u64 last, u32 begins)
{
	if (!c || !b || !b->size || !is_http(c))
		return 0;
	if (begins)
		c->tail = 0;
	u64 at = (u64)b->data, len = b->len, word = 0;
	if (len < b->size) {
		struct iovec v = {};
		if (last && !bpf_probe_read_kernel(&v, sizeof(v), (void *)last)) {
			at = (u64)v.iov_base;
			len = v.iov_len;
		} else {
			at = 0;
		}
		c->tail = 0;
	}
	u64 n = AT_MOST(len, sizeof(word));
	if (!cfg_payload || !at || !n || bpf_probe_read_user(&word, n, (void *)(at + len - n))) {
		c->tail = 0;
		return 0;
	}
	c->tail = n < 8 ? c->tail >> 8 * n | word << 8 * (8 - n) : word;
	bool ends = begins ? c->tail >> 24 == LAST_CHUNK >> 24 : chunks_end(c->tail);
	return ends ? 0 : TARE_NO_LAST_CHUNK;
}

/* What a message looks like. If it cannot be read now, as while its page moves, it has no data from here on, but a length. */
__noinline int peek(struct bytes *b)
{
	u8 head[HEAD];
	if (!b)
		return PAYLOAD_OTHER;
	u32 len = read_head(head, b);
	if (!len)
		b->data = 0;
	return len ? payload_kind(head, len) : PAYLOAD_OTHER;
}

/* The same of what was just received. */
INLINE int peek_received(struct conn *c, struct bytes *b)
{
	received_bytes(c, b);
	return peek(b);
}

/* An HTTP/1 request without a body that ends with what was read. */
INLINE bool header_ends(const struct bytes *b)
{
	u32 end = 0;
	if (b->size < 4 || b->len < b->size ||
	    bpf_probe_read_user(&end, sizeof(end), b->data + b->size - 4))
		return true;
	return end == PAYLOAD_WORD('\r', '\n', '\r', '\n') || end >> 16 == ('\n' | '\n' << 8);
}

#define REST_OF_HEADER 0xffffffff

/* Which of eight bytes end lines: their high bits, and perhaps those of bytes above the first. */
INLINE u64 has_newline(u64 w)
{
	return payload_equal(w, '\n');
}

/* How many bytes a mask of the lowest bits covers. */
INLINE u64 mask_bytes(u64 mask)
{
	return (mask & PAYLOAD_ONES) * PAYLOAD_ONES >> 56;
}

/* Notes the number behind Content-Length. */
__noinline int length_number(u32 at)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (sc && at <= SCRATCH + 64)
		sc->body = payload_length(&sc->bytes[at]);
	return 0;
}

/* Looks at the header line that begins behind a line end: whether the header ends there, or what announces a body. */
INLINE u32 framing_line(struct scratch *sc, const u8 *p)
{
	u32 at = p - sc->bytes;
	if (p[0] != '\n')
		return 0;
	if (p[1] == '\r' && p[2] == '\n')
		return at + 3;
	if (payload_is_length_key(p + 1))
		sc->length_at = at + 1 + PAYLOAD_LENGTH_KEY;
	else if (payload_is_encoding_key(p + 1))
		sc->chunks = 1;
	return 0;
}

/* The lines that begin in the next 8 bytes, two at most: others are shorter than a header's can be that matter. */
static long framing_step(u64 i, u32 *end)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || i >= SCRATCH / 8)
		return 1;
	u64 lines = has_newline(payload_eight(&sc->bytes[8 * i]));
	for (u32 j = 0; j < 2 && lines && !*end; j++) {
		u64 k = mask_bytes(((lines & -lines) >> 7) - 1) & 7; /* the first of them */
		OPAQUE(k); /* the verifier of Linux 6.1 knows no bound of 8 * i | k */
		*end = framing_line(sc, sc->bytes + 8 * i + k);
		lines &= lines - 1;
	}
	return *end != 0;
}

/* Reads the first KiB of a header of HTTP/1 into the scratch, and its framing; returns where it ends, if it does there. */
__noinline int header_framing(const struct bytes *b)
{
	u32 zero = 0, end = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b || !cfg_payload || !b->data)
		return 0;
	u64 len = AT_MOST(b->len, SCRATCH);
	sc->body = sc->length_at = sc->chunks = 0;
	if (len < HEAD || bpf_probe_read_user(sc->bytes, len, b->data))
		return 0;
	bpf_loop((len + 7) / 8, framing_step, &end, 0);
	if (end > len)
		return 0;
	if (end && sc->length_at)
		length_number(sc->length_at);
	return end;
}

/*
 * How much of an HTTP/1 request, whose beginning was read, is still to come, as far as that is
 * known: REST_OF_HEADER, or bytes of the body that Content-Length announces in its first KiB. 0: all
 * was read, or nothing is known.
 */
__noinline int request_rest(const struct bytes *b)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b || !cfg_payload || !b->data || b->len < b->size)
		return 0;
	if (b->len < HEAD || bpf_probe_read_user(sc->bytes, HEAD, b->data))
		return 0;
	u32 word = payload_word(sc->bytes);
	if (word != PAYLOAD_WORD('P', 'O', 'S', 'T') && word != PAYLOAD_WORD('P', 'U', 'T', ' ') &&
	    word != PAYLOAD_WORD('P', 'A', 'T', 'C'))
		return header_ends(b) ? 0 : REST_OF_HEADER;
	u64 whole = header_framing(b);
	if (whole)
		whole += sc->body;
	return whole > b->size ? whole - b->size : 0;
}

#define SENDPAGE    (bpf_core_field_exists(((struct proto_ops___before65 *)0)->sendpage))
#define LENGTH_MOST 0x40000000

/*
 * A response of HTTP/1 begins with these bytes, which go to seq: whether, and until when, it is known to go on behind them.
 * RFC 9112 6.3; enum answer.
 */
__noinline int answer_begins(struct conn *c, const struct bytes *b, u32 seq, u8 *direction)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	struct server_exchange *x = c ? &c->server.x : 0;
	struct service_state *svc = c ? service_of(c->service) : 0;
	if (!sc || !x || !svc || !b || !direction || x->bodiless || svc->apart ||
	    !works_on_answers(c))
		return ANSWERS_NOT;
	u32 end = header_framing(b);
	if (!end)
		return ANSWERS_NOT;
	u32 status = payload_word(&sc->bytes[8]) >> 8; /* behind a space */
	if (status == PAYLOAD_WORD('2', '0', '4', 0) || status == PAYLOAD_WORD('3', '0', '4', 0) ||
	    (u8)status == '1')
		return ANSWERS_NOT;
	if (sc->chunks) {
		if (b->size == end) /* whatever the header ends with */
			*direction |= TARE_NO_LAST_CHUNK;
		else if (chunks_end(c->tail))
			*direction &= ~TARE_NO_LAST_CHUNK;
		return *direction & TARE_NO_LAST_CHUNK ? ANSWERS_CHUNKS : ANSWERS_NOT;
	}
	if (!sc->length_at)
		return c->tags ? ANSWERS_NOT : ANSWERS_CLOSE; /* tags: of requests that wait */
	if (SENDPAGE || sc->body > LENGTH_MOST || end + sc->body <= b->size)
		return ANSWERS_NOT;
	x->end_seq = seq + end + sc->body;
	return ANSWERS_LENGTH;
}

/* More of it was sent: is it over? */
INLINE bool answer_ends(const struct conn *c, u8 direction)
{
	const struct server_exchange *x = &c->server.x;
	if (x->answers == ANSWERS_LENGTH)
		return !before(c->msg_end, x->end_seq);
	return x->answers == ANSWERS_CHUNKS && !(direction & TARE_NO_LAST_CHUNK);
}

#endif
