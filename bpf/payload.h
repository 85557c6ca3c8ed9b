/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side reads of a payload, where it may read at all: is this the beginning of an
 * HTTP/1 request or response, is it a TLS handshake, and which traceparent header does a request
 * carry. Pure functions on bytes, compiled into the kernel programs and, for its tests, into an
 * ordinary library. Names are made of payloads by the agent, not here.
 */
#ifndef TARE_PAYLOAD_H
#define TARE_PAYLOAD_H

#define PAYLOAD_INLINE static inline __attribute__((always_inline))

#ifndef PAYLOAD_BARRIER
#define PAYLOAD_BARRIER(x)
#endif

enum payload_kind {
	PAYLOAD_OTHER = 0,
	PAYLOAD_HTTP_REQUEST = 1,
	PAYLOAD_HTTP_RESPONSE = 2,
	PAYLOAD_HTTP_INTERIM = 3,  /* 1xx */
	PAYLOAD_TLS_HANDSHAKE = 4, /* handshake or alert: no request */
	PAYLOAD_TLS_DATA = 6,
	PAYLOAD_HTTP_PIECE = 5,	  /* too short to tell; may begin a request */
	PAYLOAD_HTTP2 = 7,	  /* the beginning of HTTP/2's preface; RFC 9113 3.4 */
	PAYLOAD_FASTCGI = 8,	  /* FCGI_BEGIN_REQUEST; FastCGI specification 5.1 */
	PAYLOAD_GOODBYE = 9,	  /* ends a connection to a database, and is not answered */
	PAYLOAD_HTTP_SWITCH = 10, /* 101: a response, and what follows is another protocol */
};

#define PAYLOAD_WORD(a, b, c, d)                                                                   \
	((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)

PAYLOAD_INLINE __u32 payload_word(const __u8 *p)
{
	return PAYLOAD_WORD(p[0], p[1], p[2], p[3]);
}

#define PAYLOAD_GOODBYE_SIZE 5

/* PostgreSQL's Terminate, MySQL's COM_QUIT; all of a message. */
PAYLOAD_INLINE int payload_is_goodbye(const __u8 *p, __u32 len)
{
	__u32 word = payload_word(p);
	return len == PAYLOAD_GOODBYE_SIZE && ((word == PAYLOAD_WORD('X', 0, 0, 0) && p[4] == 4) ||
					       (word == PAYLOAD_WORD(1, 0, 0, 0) && p[4] == 1));
}

/* Needs 12 readable bytes at p; bytes from len on must be 0. */
PAYLOAD_INLINE enum payload_kind payload_kind(const __u8 *p, __u32 len)
{
	if (len < 5)
		return len && p[0] >= 'A' && p[0] <= 'Z' ? PAYLOAD_HTTP_PIECE : PAYLOAD_OTHER;
	switch (payload_word(p)) {
	case PAYLOAD_WORD('G', 'E', 'T', ' '):
	case PAYLOAD_WORD('H', 'E', 'A', 'D'):
	case PAYLOAD_WORD('P', 'O', 'S', 'T'):
	case PAYLOAD_WORD('P', 'U', 'T', ' '):
	case PAYLOAD_WORD('D', 'E', 'L', 'E'):
	case PAYLOAD_WORD('O', 'P', 'T', 'I'):
	case PAYLOAD_WORD('P', 'A', 'T', 'C'):
	case PAYLOAD_WORD('T', 'R', 'A', 'C'):
	case PAYLOAD_WORD('C', 'O', 'N', 'N'):
	case PAYLOAD_WORD('Q', 'U', 'E', 'R'):
		return PAYLOAD_HTTP_REQUEST;
	case PAYLOAD_WORD('P', 'R', 'I', ' '):
		return p[4] == '*' ? PAYLOAD_HTTP2 : PAYLOAD_OTHER;
	case PAYLOAD_WORD(1, 1, 0, 1):
	case PAYLOAD_WORD(1, 1, 0, 0):
		return len >= 8 && p[4] == 0 && p[5] == 8 ? PAYLOAD_FASTCGI : PAYLOAD_OTHER;
	case PAYLOAD_WORD('H', 'T', 'T', 'P'):
		/* "HTTP/1.1 100": RFC 9110 15.2; 101 is final */
		if (len >= 12 && p[9] == '1')
			return p[11] == '1' ? PAYLOAD_HTTP_SWITCH : PAYLOAD_HTTP_INTERIM;
		return PAYLOAD_HTTP_RESPONSE;
	}
	if (payload_is_goodbye(p, len))
		return PAYLOAD_GOODBYE;
	/* RFC 8446 5.1: content types 20 change_cipher_spec, 21 alert, 22 handshake; versions 3.1 to
	 * 3.4. A packet of MySQL has a 0 there. */
	if (p[0] >= 20 && p[0] <= 22 && p[1] == 3 && p[2])
		return PAYLOAD_TLS_HANDSHAKE;
	/* an encrypted alert of TLS 1.3, as close_notify: 2 bytes, content type, 16 bytes of tag */
	if (p[0] == 23 && p[1] == 3 && p[2])
		return p[3] == 0 && p[4] == 19 ? PAYLOAD_TLS_HANDSHAKE : PAYLOAD_TLS_DATA;
	return PAYLOAD_OTHER;
}

/*
 * A frame of HTTP/2, for connections whose preface was sent before anybody looked; RFC 9113 4.1
 * and 6. Needs 9 readable bytes at p.
 */
PAYLOAD_INLINE int payload_is_http2_frame(const __u8 *p, __u32 len)
{
	__u32 size = (__u32)p[1] << 8 | p[2];
	int stream = p[5] | p[6] | p[7] | p[8], odd = p[8] & 1;
	if (len < 9 || p[0] || p[5] & 0x80)
		return 0;
	switch (p[3]) {
	case 0: /* DATA */
		return odd && !(p[4] & ~0x09);
	case 1: /* HEADERS */
		return odd && size && !(p[4] & ~0x2d);
	case 3: /* RST_STREAM */
		return odd && size == 4 && !p[4];
	case 4: /* SETTINGS */
		return !stream && size % 6 == 0 && !(p[4] & ~0x01);
	case 6: /* PING */
		return !stream && size == 8 && !(p[4] & ~0x01);
	case 8: /* WINDOW_UPDATE */
		return size == 4 && !p[4];
	}
	return 0;
}

#define PAYLOAD_PROXY_LINE  107 /* bytes at most */
#define PAYLOAD_PROXY_FIXED 16	/* bytes before what a header says the length of, in its last two */

/*
 * The header of a proxy before all else, as a line or in bytes: HAProxy's PROXY protocol, versions 1 and 2. Needs 12 bytes
 * at p.
 */
PAYLOAD_INLINE int payload_is_proxy(const __u8 *p)
{
	if (payload_word(p) == PAYLOAD_WORD('P', 'R', 'O', 'X'))
		return p[4] == 'Y' && p[5] == ' ';
	return payload_word(p) == PAYLOAD_WORD('\r', '\n', '\r', '\n') &&
	       payload_word(p + 4) == PAYLOAD_WORD(0, '\r', '\n', 'Q') &&
	       payload_word(p + 8) == PAYLOAD_WORD('U', 'I', 'T', '\n');
}

/* The status of a final response by hundreds, 1 to 5; 0: not to be read. Needs 12 bytes at p. */
PAYLOAD_INLINE __u32 payload_status_class(const __u8 *p)
{
	__u32 c = p[9] - '0';
	return p[4] == '/' && p[8] == ' ' && c >= 1 && c <= 5 ? c : 0;
}

/*
 * The beginning of a command that redis (RESP arrays) or memcached (text protocol) would take.
 * Needs 12 readable bytes at p; bytes from the end of the message on must be 0.
 */
PAYLOAD_INLINE int payload_is_redis(const __u8 *p)
{
	return p[0] == '*' && p[1] >= '1' && p[1] <= '9';
}

PAYLOAD_INLINE int payload_is_memcached(const __u8 *p)
{
	switch (payload_word(p)) {
	case PAYLOAD_WORD('g', 'e', 't', ' '):
	case PAYLOAD_WORD('g', 'e', 't', 's'):
	case PAYLOAD_WORD('g', 'a', 't', ' '):
	case PAYLOAD_WORD('g', 'a', 't', 's'):
	case PAYLOAD_WORD('s', 'e', 't', ' '):
	case PAYLOAD_WORD('a', 'd', 'd', ' '):
	case PAYLOAD_WORD('r', 'e', 'p', 'l'):
	case PAYLOAD_WORD('a', 'p', 'p', 'e'):
	case PAYLOAD_WORD('p', 'r', 'e', 'p'):
	case PAYLOAD_WORD('c', 'a', 's', ' '):
	case PAYLOAD_WORD('d', 'e', 'l', 'e'):
	case PAYLOAD_WORD('i', 'n', 'c', 'r'):
	case PAYLOAD_WORD('d', 'e', 'c', 'r'):
	case PAYLOAD_WORD('t', 'o', 'u', 'c'):
		return 1;
	}
	/* the meta commands: mg, ms, md, ma, mn, me */
	return p[0] == 'm' && p[1] >= 'a' && p[1] <= 's' && (p[2] == ' ' || p[2] == '\r');
}

/* An error answer: RESP's simple error, memcached's ERROR, CLIENT_ERROR, SERVER_ERROR. */
PAYLOAD_INLINE int payload_is_redis_error(const __u8 *p)
{
	return p[0] == '-';
}

PAYLOAD_INLINE int payload_is_memcached_error(const __u8 *p)
{
	switch (payload_word(p)) {
	case PAYLOAD_WORD('E', 'R', 'R', 'O'):
	case PAYLOAD_WORD('C', 'L', 'I', 'E'):
	case PAYLOAD_WORD('S', 'E', 'R', 'V'):
		return 1;
	}
	return 0;
}

struct payload_parent {
	__u8 trace_id[16];
	__u8 span_id[8];
	__u8 sampled;
};

/* Where the search of a header for traceparent is. */
struct traceparent_walk {
	__u32 len;   /* bytes in the scratch */
	__u32 limit; /* lines that begin further behind are in the next window, too */
	__u32 found;
	__u32 whole; /* the header was seen to its end */
	struct payload_parent parent;
};

#define TRACEPARENT_VALUE 55 /* "00-" 32 "-" 16 "-" 2 */

#define PAYLOAD_ONES 0x0101010101010101ULL

/* The high bits of those of 8 bytes that equal one, all at once; above such a byte it may be wrong. */
PAYLOAD_INLINE __u64 payload_equal(__u64 w, __u8 byte)
{
	w ^= byte * PAYLOAD_ONES;
	return (w - PAYLOAD_ONES) & ~w & 0x80 * PAYLOAD_ONES;
}

/* Loops that would need a large stack if they were unrolled. */
#ifdef __clang__
#define PAYLOAD_ONE_BY_ONE _Pragma("clang loop unroll(disable)")
#else
#define PAYLOAD_ONE_BY_ONE
#endif

/*
 * Four bytes from eight hexadecimal digits, lower case only (W3C trace context 3.2.2), all at once
 * on a little-endian machine; *bad becomes non-zero for any other character. No branches: the
 * verifier would follow each of them.
 */
PAYLOAD_INLINE __u32 payload_hex(__u64 w, __u64 *bad)
{
	__u64 letter = w >> 6 & PAYLOAD_ONES;
	__u64 v = (w & 0x0f * PAYLOAD_ONES) + letter * 9;
	*bad |= (v + 0x30 * PAYLOAD_ONES + letter * ('a' - '0' - 10)) ^ w;
	*bad |= v & 0xf0 * PAYLOAD_ONES;
	*bad |= ((v + 6 * PAYLOAD_ONES) >> 4 & PAYLOAD_ONES) ^ letter;
	v = (v << 4 | v >> 8) & 0x00ff00ff00ff00ffULL;
	v = (v | v >> 8) & 0x0000ffff0000ffffULL;
	return v | v >> 16;
}

/* Eight bytes, wherever they lie. LLVM 19 makes eight loads of it for BPF, whose verifier allows one. */
PAYLOAD_INLINE __u64 payload_eight(const __u8 *p)
{
#ifdef __bpf__
	__u64 w;
	asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(w) : "r"(p) : "memory");
	return w;
#else
	struct {
		__u64 w;
	} __attribute__((packed)) const *u = (const void *)p;
	return u->w;
#endif
}

PAYLOAD_INLINE __u32 payload_bytes(__u8 *out, const __u8 *digits, __u64 *bad)
{
	__u32 v = payload_hex(payload_eight(digits), bad);
	__builtin_memcpy(out, &v, 4);
	return v;
}

/* Two hexadecimal digits. */
PAYLOAD_INLINE __u32 payload_byte(const __u8 *p, __u64 *bad)
{
	return payload_hex(0x3030303030300000ULL | (__u64)p[1] << 8 | p[0], bad) & 0xff;
}

/*
 * W3C trace context 3.2 and 4.1: no all-zero id; of later versions than 00 what 00 has. p holds
 * TRACEPARENT_VALUE bytes. Returns 1 more than the version.
 */
PAYLOAD_INLINE int payload_traceparent(const __u8 *p, struct payload_parent *out)
{
	__u64 bad = 0;
	__u32 id = 0, span = 0, version = payload_byte(p, &bad);
	if (version == 0xff || p[2] != '-' || p[35] != '-' || p[52] != '-')
		return 0;
	PAYLOAD_ONE_BY_ONE
	for (int i = 0; i < 4; i++)
		id |= payload_bytes(out->trace_id + 4 * i, p + 3 + 8 * i, &bad);
	PAYLOAD_ONE_BY_ONE
	for (int i = 0; i < 2; i++)
		span |= payload_bytes(out->span_id + 4 * i, p + 36 + 8 * i, &bad);
	__u32 flags = payload_byte(p + 53, &bad);
	if (bad || !id || !span)
		return 0;
	out->sampled = flags & 1;
	return 1 + version;
}

#define PAYLOAD_SPACES 4 /* spaces and tabs around a value that are put up with; RFC 9110 5.6.3 */

/* How many of the first PAYLOAD_SPACES bytes are spaces or tabs, up to the first other. */
PAYLOAD_INLINE __u32 payload_space(const __u8 *p)
{
	__u32 n = 0;
	for (int i = 0; i < PAYLOAD_SPACES; i++)
		n += n == i && (p[i] == ' ' || p[i] == '\t');
	return n;
}

/* A header line ends here, but for spaces and tabs. p holds PAYLOAD_SPACES + 1 bytes. */
PAYLOAD_INLINE int payload_line_ends(const __u8 *p)
{
	__u32 n = payload_space(p);
	return p[n] == '\r' || p[n] == '\n';
}

#define PAYLOAD_CASE (0x20 * PAYLOAD_ONES) /* lower case; leaves '-' and ':' */

#define PAYLOAD_EIGHT(a, b, c, d, e, f, g, h)                                                      \
	((__u64)PAYLOAD_WORD(a, b, c, d) | (__u64)PAYLOAD_WORD(e, f, g, h) << 32)

#define PAYLOAD_LENGTH_KEY 15 /* "content-length:" */

/* "content-length:" without regard to case; p holds 15 bytes */
PAYLOAD_INLINE int payload_is_length_key(const __u8 *p)
{
	return (payload_eight(p) | PAYLOAD_CASE) ==
		   PAYLOAD_EIGHT('c', 'o', 'n', 't', 'e', 'n', 't', '-') &&
	       (payload_eight(p + 7) | PAYLOAD_CASE) ==
		   PAYLOAD_EIGHT('-', 'l', 'e', 'n', 'g', 't', 'h', ':') &&
	       p[14] == ':';
}

/* "transfer-encoding:" without regard to case, by its first 15 bytes */
PAYLOAD_INLINE int payload_is_encoding_key(const __u8 *p)
{
	return (payload_eight(p) | PAYLOAD_CASE) ==
		   PAYLOAD_EIGHT('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') &&
	       (payload_eight(p + 7) | PAYLOAD_CASE) ==
		   PAYLOAD_EIGHT('r', '-', 'e', 'n', 'c', 'o', 'd', 'i');
}

/* A decimal number behind spaces, of up to 10 characters in all; p holds 10 bytes. */
PAYLOAD_INLINE __u32 payload_length(const __u8 *p)
{
	__u32 n = 0;
	for (int i = 0; i < 10; i++) {
		if (p[i] == ' ' && !n)
			continue;
		if (p[i] < '0' || p[i] > '9')
			break;
		n = n * 10 + p[i] - '0';
	}
	return n;
}

/* "traceparent:" without regard to case; p holds 12 bytes */
PAYLOAD_INLINE int payload_is_traceparent_key(const __u8 *p)
{
	return (payload_eight(p) | PAYLOAD_CASE) ==
		   PAYLOAD_EIGHT('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r') &&
	       (payload_word(p + 8) | (__u32)PAYLOAD_CASE) == PAYLOAD_WORD('e', 'n', 't', ':') &&
	       p[11] == ':';
}

#endif
