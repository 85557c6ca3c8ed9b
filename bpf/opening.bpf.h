/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The beginning of a connection, at both ends: which protocol its client speaks, and where, behind
 * a TLS handshake, its first request begins. Read once per connection, so that requests need not be
 * looked at. Where bytes cannot be read (--payload off, splice, io_uring), requests and responses
 * are told by their turns alone.
 */
#ifndef TARE_OPENING_H
#define TARE_OPENING_H

#define OPENING_RECORDS 8 /* of TLS that one read or write may hold */

INLINE int opening_done(struct conn *c, u32 at)
{
	c->opening = OPENING_DONE;
	return at;
}

INLINE int opening_tls(struct conn *c, const struct bytes *b)
{
	u32 at = 0;
	for (u32 i = 0; i < OPENING_RECORDS; i++) {
		u8 header[TLS_HEADER];
		u32 left = b->size - at;
		if (c->tls.skip >= left) {
			c->tls.skip -= left;
			return -1;
		}
		at += c->tls.skip;
		c->tls.skip = 0;
		if (at + TLS_HEADER > b->len ||
		    bpf_probe_read_user(header, sizeof(header), b->data + at))
			return opening_done(c, 0);
		switch (tls_record(&c->tls, header)) {
		case TLS_REQUEST:
			return opening_done(c, at);
		case TLS_LOST:
			return opening_done(c, 0);
		case TLS_SKIP:
			at += TLS_HEADER;
		}
	}
	return opening_done(c, 0);
}

/* How many bytes the header of a proxy has that begins with these; 0: not all of it is there. */
__noinline int opening_proxy(const struct bytes *b)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b)
		return 0;
	u64 len = AT_MOST(b->len, PAYLOAD_PROXY_LINE), at = 0;
	if (len < PAYLOAD_PROXY_FIXED || bpf_probe_read_user(sc->bytes, len, b->data))
		return 0;
	bool line = sc->bytes[0] == 'P';
	if (!line)
		at = PAYLOAD_PROXY_FIXED + ((u32)sc->bytes[14] << 8 | sc->bytes[15]);
	for (u32 i = 0; line && i <= PAYLOAD_PROXY_LINE / 8; i++) {
		u64 lines = has_newline(payload_eight(&sc->bytes[8 * i]));
		if (!lines)
			continue;
		at = 8 * i + mask_bytes(((lines & -lines) >> 7) - 1) + 1;
		if (at > len)
			at = 0;
		break;
	}
	return at <= b->len ? at : 0;
}

#define PREFACE 24 /* bytes; RFC 9113 3.4 */

/* The client speaks HTTP/2: it sends its preface, perhaps behind the header of a proxy, or is past it. */
INLINE void http2_begin(struct conn *c, bool preface, u32 proxy)
{
	struct frames *f = c->flags & C_CLIENT ? &c->http2.out : &c->http2.in;
	u64 id = c->http2.id; /* streams_came */
	__builtin_memset(&c->http2, 0, sizeof(c->http2));
	c->http2.id = id ?: random_id_apart();
	c->http2.named = id != 0;
	if (preface) {
		f->known = 1;
		f->skip = proxy + PREFACE;
		c->http2.hpack = HPACK_NEW;
	}
	go_http2(c);
}

/* Takes what the client sends, behind the header of a proxy of so many bytes. */
INLINE int opening_behind(struct conn *c, const struct bytes *b, u8 *head, u32 len, u32 proxy)
{
	switch (payload_kind(head, len)) {
	case PAYLOAD_TLS_DATA:
		c->flags |= C_TLS;
		break;
	case PAYLOAD_TLS_HANDSHAKE:
		c->flags |= C_TLS;
		if (c->opening == OPENING_OLD || head[0] != 22)
			break;
		c->opening = OPENING_TLS;
		return opening_tls(c, b);
	case PAYLOAD_HTTP_REQUEST:
		c->flags |= C_HTTP;
		break;
	case PAYLOAD_FASTCGI:
		c->flags |= C_FASTCGI;
		break;
	case PAYLOAD_HTTP2:
		c->flags |= C_HTTP2;
		break;
	default:
		if (c->opening == OPENING_OLD && payload_is_http2_frame(head, len))
			c->flags |= C_HTTP2;
	}
	if (c->flags & C_HTTP2) {
		count(TARE_C_HTTP2);
		c->measured.asking = 0;
		http2_begin(c, payload_kind(head, len) == PAYLOAD_HTTP2, proxy);
	}
	return opening_done(c, 0);
}

/* Takes what the client sends; returns where in it the first request begins, -1: not in it. */
__noinline int opening(struct conn *c, struct bytes *b)
{
	u8 head[HEAD];
	if (!c || !b)
		return 0;
	u32 len = read_head(head, b), proxy = 0;
	if (!len)
		return opening_done(c, 0);
	if (c->opening == OPENING_TLS)
		return opening_tls(c, b);
	if (c->opening != OPENING_OLD && payload_is_proxy(head))
		proxy = opening_proxy(b);
	if (proxy && proxy == b->size)
		return -1;
	b->data += proxy; /* and back: the stack has no room for another one */
	b->len -= proxy;
	b->size -= proxy;
	if (proxy)
		len = read_head(head, b);
	int at = opening_behind(c, b, head, len, proxy);
	b->data -= proxy;
	b->len += proxy;
	b->size += proxy;
	return at < 0 ? at : at + proxy;
}

#endif
