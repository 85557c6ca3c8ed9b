/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frames of a direction of HTTP/2 (RFC 9113). Both ends follow those of both directions, sampled
 * or not, for only who has followed them knows where the next one begins: nine bytes of each are
 * read. A frame may lie in several reads, writes and buffers, or be larger than a record, and is then noted in pieces.
 * What cannot be followed any more (bytes that cannot be read) is given up and counted.
 */
#ifndef TARE_FRAMES_H
#define TARE_FRAMES_H

/* Bytes of HEADERS that one record has room for. */
#define FRAME_PIECE (TARE_PAYLOAD_START - FRAME_HEADER)

#define FRAMES	     256  /* that matter, in one round */
#define FRAME_STEPS  2048 /* headers of frames, payloads, buffers, in one round */
#define FRAME_ROUNDS 16	  /* in one read or write */

enum frame_type {
	FRAME_DATA = 0,
	FRAME_HEADERS = 1,
	FRAME_RESET = 3,
	FRAME_CONTINUATION = 9,
	FRAME_REST = TARE_FRAME_REST, /* of HEADERS that came in pieces */
};

#define TURN_UNKNOWN 0xffffffff

#define FRAME_END_STREAM  1
#define FRAME_END_HEADERS 4
#define FRAME_PADDED	  8
#define FRAME_PRIORITY	  32

/* A frame, as far as it lies in one buffer of what is read or sent, or a further piece of it. */
struct frame {
	u64 data; /* of its payload */
	u32 in;	  /* bytes there */
	u32 stream;
	s32 at;	  /* of its header in what is read or sent; negative: it came before */
	u32 size; /* bytes to be counted: its header belongs to the first piece */
	u32 payload;
	u32 block; /* FRAME_HEADERS: its number */
	u8 type;
	u8 flags;
	u8 ends;      /* with this piece */
	u8 by_header; /* enum unlinked, + 1, by its headers; TARE_UNLINKED_MAX: they do not say */
	u32 behind;   /* bytes of the payload before this piece */
	struct context ctx; /* by_header 1: of whose request it is a call */
};

struct frame_scratch {
	struct frames f;
	u64 data;
	u64 more; /* struct iovec of the next buffer: sends: in the kernel, receives: of the process; 0: unknown */
	u32 len;    /* bytes at data */
	u32 at;	    /* of them that are behind */
	u32 before; /* bytes of the buffers before */
	u32 size;   /* bytes of all buffers */
	u32 n;
	u32 lost;   /* out of step */
	u32 all;    /* DATA matters, too */
	u32 blocks; /* so does CONTINUATION; hpack.bpf.h */
	u32 taken;  /* frames of the list whose headers were read */
	u32 turn; /* the only stream for which something came, if that is a whole request in one frame; 0:
				 none, TURN_UNKNOWN: others */
	u32 begun;	      /* place in the list, + 1, of the frame that a block begins with */
	u32 unlinked;	      /* sends: of a stream that begins there it is not known whose it is */
	struct stream stream; /* too large for the stack on Linux 6.1 */
	struct frame list[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32); /* enum hook */
	__type(value, struct frame_scratch);
} frame_scratches SEC(".maps");

INLINE struct frame_scratch *frames_of(u32 hook)
{
	return bpf_map_lookup_elem(&frame_scratches, &hook);
}

/* What was received is a request without a body, and nothing else. */
INLINE u32 turn_of(const struct frame_scratch *s, u8 type, u8 flags, u32 stream)
{
	const u8 whole = FRAME_END_STREAM | FRAME_END_HEADERS;
	if (type != FRAME_HEADERS || (flags & whole) != whole || (s->turn && s->turn != stream))
		return TURN_UNKNOWN;
	return stream;
}

/* Notes a frame, or a piece of it, if it matters: so many bytes of its payload are here. */
INLINE void frame_note(struct frame_scratch *s, u32 in)
{
	const u8 *h = s->f.head;
	u32 stream = ((u32)h[5] << 24 | (u32)h[6] << 16 | (u32)h[7] << 8 | h[8]) & 0x7fffffff;
	u32 n = s->n, header = s->f.begins ? FRAME_HEADER : 0;
	u8 type = h[3], flags = h[4];
	bool ends = in == s->f.skip;
	if (stream && (type == FRAME_HEADERS || type == FRAME_DATA || type == FRAME_CONTINUATION))
		s->turn = turn_of(s, type, flags, stream);
	if (!ends)
		flags &= ~FRAME_END_STREAM; /* not yet */
	s->f.begins = 0;
	if (!stream ||
	    !(type == FRAME_HEADERS || (type == FRAME_RESET && header) ||
	      (s->all && type == FRAME_DATA) || (s->blocks && type == FRAME_CONTINUATION)))
		return;
	if (type == FRAME_HEADERS && !header)
		type = FRAME_REST;
	if (n && type == FRAME_DATA) { /* a body is many of them */
		struct frame *last = &s->list[(n - 1) & (FRAMES - 1)];
		if (last->type == FRAME_DATA && last->stream == stream) {
			last->size += in + header;
			last->flags |= flags;
			return;
		}
	}
	u32 place = n;
	OPAQUE(place); /* Linux 6.1 forgets its bound on the stack */
	struct frame *f = &s->list[place & (FRAMES - 1)];
	f->data = s->data + s->at;
	f->in = in;
	f->stream = stream;
	f->at = s->before + s->at - header;
	f->size = in + header;
	f->payload = (u32)h[0] << 16 | (u32)h[1] << 8 | h[2];
	f->behind = f->payload - s->f.skip;
	f->ends = ends;
	f->by_header = 0;
	f->block = s->f.blocks - 1;
	f->type = type;
	f->flags = flags;
	s->n = n + 1;
}

/* The next of several buffers. Returns 1 at the end. */
INLINE long frame_buffer(struct frame_scratch *s, u32 hook)
{
	struct iovec v = {};
	u32 left;
	s->before += s->len;
	s->at = s->len = 0;
	left = s->size - s->before;
	if (!left)
		return 1;
	const void *more = (void *)s->more;
	if (!more || (hook == HOOK_SENDS ? bpf_probe_read_kernel(&v, sizeof(v), more)
					 : bpf_probe_read_user(&v, sizeof(v), more))) {
		s->lost = 1;
		return 1;
	}
	s->more += sizeof(v);
	s->data = (u64)v.iov_base;
	s->len = v.iov_len < left ? v.iov_len : left;
	return 0;
}

/* What there is of a frame's payload, its header, or one byte of a header that came in pieces. */
static long frame_step(u64 i, u32 *hook)
{
	struct frame_scratch *s = frames_of(*hook);
	if (!s)
		return 1;
	u32 left = s->len - s->at, skip = s->f.skip < left ? s->f.skip : left;
	if (s->n > FRAMES - 2) /* a step notes two at most */
		return 1;
	if (!left)
		return frame_buffer(s, *hook);
	if (skip > FRAME_PIECE && s->f.head[3] == FRAME_HEADERS)
		skip = FRAME_PIECE;
	if (skip) {
		frame_note(s, skip);
		s->at += skip;
		s->f.skip -= skip;
		left -= skip;
		if (!left || s->f.skip)
			return 0;
	}
	const void *from = (void *)(s->data + s->at);
	if (!s->f.have && left >= FRAME_HEADER) {
		if (bpf_probe_read_user(s->f.head, FRAME_HEADER, from))
			goto lost;
		s->at += FRAME_HEADER;
	} else {
		if (bpf_probe_read_user(&s->f.head[s->f.have & 15], 1, from))
			goto lost;
		s->at++;
		s->f.have++;
		if (s->f.have < FRAME_HEADER)
			return 0;
		s->f.have = 0;
	}
	if (!s->f.known && !payload_is_http2_frame(s->f.head, FRAME_HEADER))
		goto lost;
	s->f.known = 1;
	if (s->f.head[3] > 16 || s->f.head[0] > 15) /* not a type that is in use; 1 MiB */
		goto lost;
	s->f.skip = (u32)s->f.head[0] << 16 | (u32)s->f.head[1] << 8 | s->f.head[2];
	s->f.begins = 1;
	if (s->f.head[3] == FRAME_HEADERS || s->f.head[3] == FRAME_CONTINUATION)
		s->f.blocks++;
	if (!s->f.skip)
		frame_note(s, 0);
	return 0;
lost:
	s->lost = 1;
	return 1;
}

/* Bytes of what is read or sent that have not been followed. */
INLINE u32 frames_left(const struct frame_scratch *s)
{
	return s->size - s->before - s->at;
}

/* Follows frames from what round before has left; returns how many matter, and lie in the scratch. */
__noinline int frames_follow(struct conn *c, const struct bytes *b, u64 more, u32 hook, u32 round)
{
	if (!c || !b)
		return 0;
	struct frame_scratch *s = frames_of(hook);
	struct frames *f = hook == HOOK_SENDS ? &c->http2.out : &c->http2.in;
	if (!s || c->http2.lost || !b->size)
		return 0;
	s->n = s->taken = 0;
	if (!round) {
		s->at = s->before = s->unlinked = s->turn = 0;
		s->lost = !b->data;
		s->f = *f;
		s->data = (u64)b->data;
		s->len = b->len < b->size ? b->len : b->size;
		s->size = b->size;
		s->more = more;
	}
	if (!s->lost) {
		s->all = c->http2.live != 0;
		s->blocks = c->http2.hpack >= HPACK_ADOPTS &&
			    (hook == HOOK_SENDS) == !!(c->flags & C_CLIENT);
		bpf_loop(FRAME_STEPS, frame_step, &hook, 0);
		*f = s->f;
		if (round == FRAME_ROUNDS - 1 && frames_left(s))
			s->lost = 1;
	}
	if (s->lost) {
		c->http2.lost = 1;
		count(TARE_C_HTTP2_LOST);
	}
	return s->n;
}

INLINE struct bytes frame_bytes(const struct frame *f)
{
	struct bytes r = {.data = (void *)f->data, .len = f->in, .size = f->size};
	return r;
}

#endif
