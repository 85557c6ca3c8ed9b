/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The context on the wire: a TCP option, or the same bytes in an option of the IP header. Pure
 * functions on bytes, compiled into the kernel programs and, for its tests, into an ordinary library.
 *
 *	kind 25, length 26: trace id (16), span id (8)             sampled implied
 *	kind 25, length 27: trace id (16), span id (8), flags (1)  written with the flag TAG_RETRO
 *	kind 25, length 28: trace id (16), span id (8), offset (2)
 *	kind 253, length 4: RFC 6994 experiment id 0x5461          the mark
 *	kind 253, length 5 to 28: the same id, name (1 to 24)      the mark of an unlinked request
 *	kind 253, length 22: id 0x5463, second half of a trace id (8), span id (8), offset (2)
 *	kind 253, length 10: id 0x5462, stream (4), count (2)      sampled streams
 *	kind 253, length 28: id 0x5462, stream (4), codes (20)     sampled streams
 *
 * Lengths 26 and 27 are those of OpenTelemetry eBPF Instrumentation; Tare writes length 26
 * whenever the request begins with the segment, so each tracer reads the other. Length 28 adds
 * how many bytes into the segment the request begins (network order): the kernel merges small
 * sends into one segment, and a retransmission may merge or cut differently.
 *
 * Retro requests (retro.bpf.h) have the flags 0x02: not sampled, with a random trace id, as
 * whoever knows no retro requests reads them. With an offset the flags have no room; the first half
 * of the trace id then follows from the second, and who does not know the id 0x5463 skips the option.
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
 *
 * Where several sampled requests over HTTP/2 begin in one segment, no tag has room for all. The
 * segment says then which streams are sampled: so many, from a stream on (a client's have odd
 * numbers), or those that codes tell. Each begins a trace of its own behind the connection, which a
 * collector joins by the request's position. The same may be said several times, of other streams of
 * the connection, too.
 *
 * In an IP header these bytes, the tag first, are the data of one option of a type that RFC 4727
 * leaves for experiments:
 *
 *	IPv4	94: not copied into fragments, of the class "debugging and measurement"
 *	IPv6	30, in a destination options header: to be skipped by who does not know it
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
#define STREAMS_ID_1   0x62
#define RETRO_ID_1     0x63
#define RETRO_LEN      22
#define TAG_SAMPLED    0x01 /* of flags, as in traceparent */
#define TAG_RETRO      0x02
#define STREAMS_CODES  20 /* bytes */
#define STREAMS_RUN    10 /* length with a count */
#define STREAMS_LEN    28 /* with codes */

#define STREAMS_PARAMETER 10 /* of codes, at most */

#define IP4_OPTION 94
#define IP6_OPTION 0x1e
#define IP_ROOM	   40 /* all that IPv4 has for options; what is read of IPv6's */
#define IP_OPTIONS 6  /* options that are looked at, padding included */

/* An index that a verifier believes, which the compiler would not keep within bounds twice. */
#ifdef __bpf__
#define IP_AT(i)                                                                                   \
	({                                                                                         \
		__u64 _i = i;                                                                      \
		asm volatile("" : "+r"(_i));                                                       \
		_i & 63;                                                                           \
	})
#else
#define IP_AT(i) ((i) & 63)
#endif

struct tag_context {
	__u64 hi, lo; /* trace id, wire order */
	__u64 span;   /* span id, wire order */
	__u32 flags;  /* TAG_RETRO */
	__u32 pad;
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

/* The first half of the trace id of a retro request that began here: splitmix64 of the second. */
static inline __attribute__((always_inline)) __u64 tag_derived(__u64 lo)
{
	__u64 z = lo + 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* With an offset; 0: this trace id has no room. */
static inline __attribute__((always_inline)) int
tag_encode_retro(struct tag_option *o, const struct tag_context *c, __u32 offset)
{
	if (c->hi != tag_derived(c->lo))
		return 0;
	o->kind = MARK_KIND;
	o->len = RETRO_LEN;
	o->bytes[0] = MARK_ID_0;
	o->bytes[1] = RETRO_ID_1;
	__builtin_memcpy(o->bytes + 2, &c->lo, 8);
	__builtin_memcpy(o->bytes + 10, &c->span, 8);
	o->bytes[18] = offset >> 8;
	o->bytes[19] = offset;
	return o->len;
}

/* Returns the option's length; 0: it cannot be told. */
static inline __attribute__((always_inline)) int
tag_encode(struct tag_option *o, const struct tag_context *c, __u32 offset)
{
	if (c->flags & TAG_RETRO && offset)
		return tag_encode_retro(o, c, offset);
	o->kind = TAG_KIND;
	__builtin_memcpy(o->bytes, &c->hi, 8);
	__builtin_memcpy(o->bytes + 8, &c->lo, 8);
	__builtin_memcpy(o->bytes + 16, &c->span, 8);
	o->bytes[24] = c->flags & TAG_RETRO ? TAG_RETRO : offset >> 8;
	o->bytes[25] = offset;
	o->len = c->flags & TAG_RETRO ? TAG_LEN_FLAGS : offset ? TAG_LEN_OFFSET : TAG_LEN;
	return o->len;
}

static inline __attribute__((always_inline)) int tag_is_retro(const struct tag_option *o)
{
	return o->kind == MARK_KIND && o->len == RETRO_LEN && o->bytes[0] == MARK_ID_0 &&
	       o->bytes[1] == RETRO_ID_1;
}

/*
 * Reads an option that starts with its kind and length; the caller has all 28 bytes in hand. Where it returns
 * TAG_UNSAMPLED, c has what the sender says of the request, with TAG_RETRO if it is retro there.
 */
static inline __attribute__((always_inline)) enum tag_result
tag_decode(const struct tag_option *o, struct tag_context *c, __u32 *offset)
{
	*offset = 0;
	c->flags = c->pad = 0;
	if (tag_is_retro(o)) {
		__builtin_memcpy(&c->lo, o->bytes + 2, 8);
		__builtin_memcpy(&c->span, o->bytes + 10, 8);
		c->hi = tag_derived(c->lo);
		c->flags = TAG_RETRO;
		*offset = (__u32)o->bytes[18] << 8 | o->bytes[19];
		return (c->hi | c->lo) && c->span ? TAG_UNSAMPLED : TAG_MALFORMED;
	}
	if (o->kind != TAG_KIND || o->len < TAG_LEN || o->len > TAG_LEN_OFFSET)
		return TAG_MALFORMED;
	__builtin_memcpy(&c->hi, o->bytes, 8);
	__builtin_memcpy(&c->lo, o->bytes + 8, 8);
	__builtin_memcpy(&c->span, o->bytes + 16, 8);
	if (!(c->hi | c->lo) || !c->span)
		return TAG_MALFORMED;
	if (o->len == TAG_LEN_FLAGS && !(o->bytes[24] & TAG_SAMPLED)) {
		c->flags = o->bytes[24] & TAG_RETRO;
		return TAG_UNSAMPLED;
	}
	if (o->len == TAG_LEN_OFFSET)
		*offset = (__u32)o->bytes[24] << 8 | o->bytes[25];
	return TAG_OK;
}

/* Sampled streams of a client, from the oldest on. */
struct tag_streams {
	__u32 first;
	__u32 count; /* so many, all; 0: those of the codes */
	__u8
	    codes[32]; /* STREAMS_CODES of them go on the wire; the first byte is their parameter */
};

static inline __attribute__((always_inline)) int streams_encode(struct tag_option *o,
								const struct tag_streams *s)
{
	o->kind = MARK_KIND;
	o->bytes[0] = MARK_ID_0;
	o->bytes[1] = STREAMS_ID_1;
	o->bytes[2] = s->first >> 24;
	o->bytes[3] = s->first >> 16;
	o->bytes[4] = s->first >> 8;
	o->bytes[5] = s->first;
	if (s->count) {
		o->bytes[6] = s->count >> 8;
		o->bytes[7] = s->count;
		o->len = STREAMS_RUN;
	} else {
		__builtin_memcpy(o->bytes + 6, s->codes, STREAMS_CODES);
		o->len = STREAMS_LEN;
	}
	return o->len;
}

/* Reads an option of which the caller has all bytes in hand. */
static inline __attribute__((always_inline)) enum tag_result
streams_decode(const struct tag_option *o, struct tag_streams *s)
{
	__builtin_memset(s, 0, sizeof(*s));
	if (o->kind != MARK_KIND || o->bytes[0] != MARK_ID_0 || o->bytes[1] != STREAMS_ID_1)
		return TAG_MALFORMED;
	s->first = (__u32)o->bytes[2] << 24 | (__u32)o->bytes[3] << 16 | (__u32)o->bytes[4] << 8 |
		   o->bytes[5];
	if (o->len == STREAMS_RUN)
		s->count = (__u32)o->bytes[6] << 8 | o->bytes[7];
	else if (o->len == STREAMS_LEN)
		__builtin_memcpy(s->codes, o->bytes + 6, STREAMS_CODES);
	else
		return TAG_MALFORMED;
	return !(s->first & 1) || s->first >> 31 || s->codes[0] > STREAMS_PARAMETER ? TAG_MALFORMED
										    : TAG_OK;
}

/*
 * Codes of sampled streams: for each, how many streams before it are not, since the last one that
 * is. Golomb and Rice have such codes: for a parameter k, as many bits 0 as 2^k goes into the number, a
 * bit 1, and k bits of what is left, the lowest first. Bits 0 at the end are no code. With k = 0 each
 * bit stands for a stream. How the parameter that takes the least room follows from the density:
 */
static inline __attribute__((always_inline)) __u32 streams_parameter(__u32 sampled, __u32 others)
{
	__u32 k = 0;
	for (int i = 0; i < STREAMS_PARAMETER; i++)
		if (6ull * others >= (13ull * sampled) << i)
			k = i + 1;
	return k;
}

struct tag_codes {
	__u32 at;     /* bits that are used */
	__u32 stream; /* the next one */
	__u32 left;   /* bits of a code that are not yet read; when reading */
};

/* Begins to write codes, or to read them. */
static inline __attribute__((always_inline)) struct tag_codes
streams_codes(const struct tag_streams *s)
{
	struct tag_codes c = {.at = 8, .stream = s->first};
	return c;
}

/* Adds a stream. 0: there is no room. */
static inline __attribute__((always_inline)) int streams_add(struct tag_streams *s,
							     struct tag_codes *c, __u32 stream)
{
	__u32 others = (stream - c->stream) / 2, k = s->codes[0], whole = others >> (k & 31);
	if (whole >= 8 * STREAMS_CODES || c->at + whole + 1 + k > 8 * STREAMS_CODES)
		return 0;
	c->at += whole;
	for (__u32 i = 0; i <= STREAMS_PARAMETER; i++) {
		if (i > k)
			break;
		if (!i || others >> (i - 1) & 1)
			s->codes[c->at >> 3 & 31] |= 1 << (c->at & 7);
		c->at++;
	}
	c->stream = stream + 2;
	return 1;
}

/* Reads a bit. Returns the stream whose code ends with it, or 0. */
static inline __attribute__((always_inline)) __u32 streams_bit(const struct tag_streams *s,
							       struct tag_codes *c)
{
	__u32 k = s->codes[0] & 31, bit = s->codes[c->at >> 3 & 31] >> (c->at & 7) & 1;
	c->at++;
	if (c->left) {
		c->stream += bit << (k - c->left + 1 & 31) << 1;
		c->left--;
	} else if (bit) {
		c->left = k + 1;
	} else {
		c->stream += 2u << k;
	}
	if (c->left != 1)
		return 0;
	c->left = 0;
	c->stream += 2;
	return c->stream - 2;
}

/* The options of an IP header. Behind them is room to read a whole option at any of their bytes. */
struct ip_area {
	__u8 bytes[64 + TAG_LEN_OFFSET];
};

/* What an IP header's option says. */
struct ip_said {
	struct tag_context ctx;
	__u32 offset;
	__u8 tag;  /* 1 + enum tag_result; 0: none */
	__u8 mark; /* its length, 0: none */
	__u8 pad[2];
	__u8 name[MARK_NAME]; /* of a mark that is longer than MARK_LEN */
};

static inline __attribute__((always_inline)) int tag_is_mark(const struct tag_option *o, __u32 size)
{
	return size >= MARK_LEN && o->kind == MARK_KIND &&
	       (o->len == MARK_LEN || o->len == MARK_LEN + MARK_NAME) && o->len <= size &&
	       o->bytes[0] == MARK_ID_0 && o->bytes[1] == MARK_ID_1;
}

/* Reads the data of the option, size bytes of a that begin at. */
static inline __attribute__((always_inline)) void ip_read_data(const struct ip_area *a, __u32 at,
							       __u32 size, struct ip_said *said)
{
	struct tag_option o;
	__builtin_memcpy(&o, a->bytes + IP_AT(at), sizeof(o));
	if (size >= 2 && (o.kind == TAG_KIND || tag_is_retro(&o))) {
		said->tag = 1 + TAG_MALFORMED;
		if (o.len < RETRO_LEN || o.len > size)
			return;
		said->tag = 1 + tag_decode(&o, &said->ctx, &said->offset);
		at += o.len;
		size -= o.len;
		__builtin_memcpy(&o, a->bytes + IP_AT(at), sizeof(o));
	}
	if (!tag_is_mark(&o, size))
		return;
	said->mark = o.len;
	if (o.len > MARK_LEN)
		__builtin_memcpy(said->name, o.bytes + MARK_LEN - 2, MARK_NAME);
}

/*
 * Looks for the option among size bytes of options: of an IPv4 header, or of an IPv6 destination
 * options header, its first two bytes included.
 */
static inline __attribute__((always_inline)) void ip_read(const struct ip_area *a, __u32 size,
							  int v6, struct ip_said *said)
{
	__u32 at = v6 ? 2 : 0, len = 0;
	__u8 pad = v6 ? 0 : 1, wanted = v6 ? IP6_OPTION : IP4_OPTION, type = pad;
	__builtin_memset(said, 0, sizeof(*said));
	if (size > IP_ROOM)
		return;
	for (int i = 0; i < IP_OPTIONS; i++) {
		if (at + 2 > size)
			return;
		type = a->bytes[IP_AT(at)];
		len = a->bytes[IP_AT(at + 1)] + (v6 ? 2 : 0);
		if (type == wanted)
			break;
		if (type == pad)
			len = 1;
		else if (len < 2 || type == 0)
			return;
		at += len;
	}
	if (type == wanted && len >= 2 && at + len <= size)
		ip_read_data(a, at + 2, len - 2, said);
}

/*
 * Makes options of the size bytes of data at IP_DATA(v6): puts the header before them and the
 * padding behind them. Returns their length; a is zero elsewhere.
 */
#define IP_DATA(v6) ((v6) ? 4 : 2)

static inline __attribute__((always_inline)) __u32 ip_write(struct ip_area *a, __u32 size, int v6,
							    __u8 next)
{
	__u32 end = IP_DATA(v6) + size;
	if (!v6) {
		a->bytes[0] = IP4_OPTION;
		a->bytes[1] = end;
		return (end + 3) & ~3;
	}
	__u32 len = (end + 7) & ~7;
	a->bytes[0] = next;
	a->bytes[1] = len / 8 - 1;
	a->bytes[2] = IP6_OPTION;
	a->bytes[3] = size;
	if (end + 1 < len) { /* PadN; one byte of zero is Pad1 */
		a->bytes[IP_AT(end)] = 1;
		a->bytes[IP_AT(end + 1)] = len - end - 2;
	}
	return len;
}

#endif
