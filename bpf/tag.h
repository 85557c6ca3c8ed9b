/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The context on the wire: a TCP option. Pure functions on bytes, compiled into the kernel
 * programs and, for its tests, into an ordinary library.
 *
 *	kind 25, length 26: trace id (16), span id (8)             sampled implied
 *	kind 25, length 27: trace id (16), span id (8), flags (1)  read only
 *	kind 25, length 28: trace id (16), span id (8), offset (2)
 *	kind 253, length 4: RFC 6994 experiment id 0x5461          the mark
 *	kind 253, length 5 to 28: the same id, name (1 to 24)      the mark of an unlinked request
 *
 * Lengths 26 and 27 are those of OpenTelemetry eBPF Instrumentation; Tare writes length 26
 * whenever the request begins with the segment, so each tracer reads the other. Length 28 adds
 * how many bytes into the segment the request begins (network order): the kernel merges small
 * sends into one segment, and a retransmission may merge or cut differently.
 *
 * 28 bytes are what timestamps leave of the 40 that TCP has for options.
 *
 * The mark says only: "on this connection, a sampled request would carry a tag". It goes with
 * the acknowledgement that completes the handshake and with the first data, until acknowledged.
 * The accepting side answers it by the same: "a traced service listens here".
 *
 * The longer mark takes the promise back: "I cannot tell which request I send this for", with the
 * name of the service that says so. Untagged requests behind it begin traces of their own, until
 * the short mark comes again.
 */
#ifndef TARE_TAG_H
#define TARE_TAG_H

#define TAG_KIND       25
#define TAG_LEN	       26
#define TAG_LEN_FLAGS  27
#define TAG_LEN_OFFSET 28
#define TAG_RESERVE    28
#define TAG_MAX_OFFSET 0xffff
#define MARK_KIND      253
#define MARK_LEN       4
#define MARK_ID_0      0x54
#define MARK_ID_1      0x61
#define MARK_NAME      24 /* bytes of a name in a mark */

struct tag_context {
	__u64 hi, lo; /* trace id, wire order */
	__u64 span;   /* span id, wire order */
};

struct tag_option {
	__u8 kind;
	__u8 len;
	__u8 bytes[TAG_LEN_OFFSET - 2];
};

enum tag_result {
	TAG_OK = 0,
	TAG_UNSAMPLED = 1, /* the sender says: not sampled */
	TAG_MALFORMED = 2,
};

static inline __attribute__((always_inline)) int
tag_encode(struct tag_option *o, const struct tag_context *c, __u32 offset)
{
	o->kind = TAG_KIND;
	__builtin_memcpy(o->bytes, &c->hi, 8);
	__builtin_memcpy(o->bytes + 8, &c->lo, 8);
	__builtin_memcpy(o->bytes + 16, &c->span, 8);
	o->bytes[24] = offset >> 8;
	o->bytes[25] = offset;
	o->len = offset ? TAG_LEN_OFFSET : TAG_LEN;
	return o->len;
}

/* Reads an option that starts with its kind and length; the caller has all 28 bytes in hand. */
static inline __attribute__((always_inline)) enum tag_result
tag_decode(const struct tag_option *o, struct tag_context *c, __u32 *offset)
{
	*offset = 0;
	if (o->kind != TAG_KIND || o->len < TAG_LEN || o->len > TAG_LEN_OFFSET)
		return TAG_MALFORMED;
	__builtin_memcpy(&c->hi, o->bytes, 8);
	__builtin_memcpy(&c->lo, o->bytes + 8, 8);
	__builtin_memcpy(&c->span, o->bytes + 16, 8);
	if (!(c->hi | c->lo) || !c->span)
		return TAG_MALFORMED;
	if (o->len == TAG_LEN_FLAGS && !(o->bytes[24] & 1))
		return TAG_UNSAMPLED;
	if (o->len == TAG_LEN_OFFSET)
		*offset = (__u32)o->bytes[24] << 8 | o->bytes[25];
	return TAG_OK;
}

#endif
