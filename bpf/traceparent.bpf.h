/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds a traceparent header in the first KiB of an HTTP/1 request. Eight bytes at a time: most
 * words hold no line end.
 */
#ifndef TARE_TRACEPARENT_H
#define TARE_TRACEPARENT_H

#define ONES  0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL
#define LINES 0x0a0a0a0a0a0a0a0aULL

enum scan_result { SCAN_ON = 0, SCAN_FOUND = 1, SCAN_END = 2 };

/*
 * Looks behind each line end among the 8 bytes at. A global function: verified once, not per call.
 * What lies behind len is another request's.
 */
__noinline int parse_lines(u32 at, u32 len, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !out || at >= SCRATCH || len > SCRATCH)
		return SCAN_END;
	for (u32 j = 0; j < 8; j++) {
		u32 line = at + j + 1;
		if (line > SCRATCH || line + 12 + TRACEPARENT_VALUE >= len)
			return SCAN_END;
		u8 *p = &sc->bytes[line];
		if (p[-1] != '\n')
			continue;
		if (p[0] == '\n' || (p[0] == '\r' && p[1] == '\n'))
			return SCAN_END; /* the body begins */
		if ((p[0] | 0x20) != 't' || !payload_is_traceparent_key(p))
			continue;
		u32 space = payload_space(p + 12);
		if (line + 12 + space + TRACEPARENT_VALUE >= len)
			return SCAN_END;
		u8 *value = p + 12 + space;
		if (payload_traceparent(value, out) && payload_line_ends(value + TRACEPARENT_VALUE))
			return SCAN_FOUND;
		return SCAN_END;
	}
	return SCAN_ON;
}

INLINE bool any_zero(u64 w)
{
	return (w - ONES) & ~w & HIGHS;
}

/* One of the bytes that mask selects may begin a traceparent header, or the end of the headers. */
INLINE bool begins(u64 w, u64 mask)
{
	return any_zero(((w | 0x20 * ONES) ^ 't' * ONES) | ~mask) ||
	       any_zero((w ^ '\r' * ONES) | ~mask) || any_zero((w ^ '\n' * ONES) | ~mask);
}

/* Whether an HTTP/1 request carries a valid traceparent. */
__noinline int find_traceparent(const struct bytes *b, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b || !out)
		return 0;
	u32 len = b->len < SCRATCH ? b->len : SCRATCH;
	if (!b->data || len < 16 || bpf_probe_read_user(sc->bytes, len, b->data))
		return 0;
	if (payload_kind(sc->bytes, len) != PAYLOAD_HTTP_REQUEST)
		return 0;
	for (u32 at = 0; at < SCRATCH && at < len; at += 8) {
		u64 w = *(u64 *)&sc->bytes[at] ^ LINES;
		u64 hit = (w - ONES) & ~w & HIGHS;
		if (hit && begins(*(u64 *)&sc->bytes[at + 1], (hit >> 7) * 0xff)) {
			int r = parse_lines(at, len, out);
			if (r)
				return r == SCAN_FOUND;
		}
	}
	return 0;
}

#endif
