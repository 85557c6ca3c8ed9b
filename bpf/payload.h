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
	PAYLOAD_HTTP_INTERIM = 3, /* 1xx */
	PAYLOAD_TLS_HANDSHAKE = 4,
};

#define PAYLOAD_WORD(a, b, c, d)                                                                   \
	((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)

PAYLOAD_INLINE __u32 payload_word(const __u8 *p)
{
	return PAYLOAD_WORD(p[0], p[1], p[2], p[3]);
}

/* Needs 12 readable bytes at p; bytes from len on must be 0. */
PAYLOAD_INLINE enum payload_kind payload_kind(const __u8 *p, __u32 len)
{
	if (len < 5)
		return PAYLOAD_OTHER;
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
	case PAYLOAD_WORD('H', 'T', 'T', 'P'):
		return len >= 10 && p[9] == '1' ? PAYLOAD_HTTP_INTERIM : PAYLOAD_HTTP_RESPONSE;
	}
	/* RFC 8446 5.1: content types 20 change_cipher_spec, 21 alert, 22 handshake; major version 3 */
	if (p[0] >= 20 && p[0] <= 22 && p[1] == 3)
		return PAYLOAD_TLS_HANDSHAKE;
	return PAYLOAD_OTHER;
}

PAYLOAD_INLINE int payload_hex(__u8 c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1; /* W3C trace context 3.2.2: lower case only */
}

struct payload_parent {
	__u8 trace_id[16];
	__u8 span_id[8];
	__u8 sampled;
};

#define TRACEPARENT_VALUE 55 /* "00-" 32 "-" 16 "-" 2 */

PAYLOAD_INLINE int payload_hex_bytes(const __u8 *p, __u8 *out, int n)
{
	__u32 any = 0, bad = 0;
	for (int i = 0; i < n; i++) {
		int a = payload_hex(p[2 * i]), b = payload_hex(p[2 * i + 1]);
		bad |= (__u32)(a | b) >> 31;
		out[i] = a << 4 | (b & 15);
		any |= out[i];
	}
	return any && !bad;
}

/* W3C trace context 3.2: version 00, no all-zero id. p holds TRACEPARENT_VALUE bytes. */
PAYLOAD_INLINE int payload_traceparent(const __u8 *p, struct payload_parent *out)
{
	__u8 flags[1];
	if (p[0] != '0' || p[1] != '0' || p[2] != '-' || p[35] != '-' || p[52] != '-')
		return 0;
	if (!payload_hex_bytes(p + 3, out->trace_id, 16) || !payload_hex_bytes(p + 36, out->span_id, 8))
		return 0;
	int a = payload_hex(p[53]), b = payload_hex(p[54]);
	if (a < 0 || b < 0)
		return 0;
	flags[0] = a << 4 | b;
	out->sampled = flags[0] & 1;
	return 1;
}

/* "traceparent:" without regard to case; p holds 12 bytes */
PAYLOAD_INLINE int payload_is_traceparent_key(const __u8 *p)
{
	const char key[] = "traceparent:";
	for (int i = 0; i < 12; i++)
		if ((p[i] | (i < 11 ? 0x20 : 0)) != key[i])
			return 0;
	return 1;
}

#endif
