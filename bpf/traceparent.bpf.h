/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the traceparent header in the first 16 KiB of an HTTP/1 request. Eight bytes at a time: most
 * words hold no line end, and behind most line ends neither that header nor the body begins. Two
 * such headers are none (W3C trace context 3.2.1): which of them is true is not known.
 */
#ifndef TARE_TRACEPARENT_H
#define TARE_TRACEPARENT_H

#define PARSED	     32 /* words a call */
#define WINDOWS	     18 /* that are read one behind the other, */
#define WINDOW_ENDS  96 /* with so many bytes in common: as many as the header may have, and more */
#define WINDOW_BYTES (SCRATCH - WINDOW_ENDS)

enum scan_result { SCAN_ON = 0, SCAN_FOUND = 1, SCAN_END = 2, SCAN_BAD = 3, SCAN_CUT = 4 };

/* Reads the value of the header at this place in what was read. Global: verified once, not per call. */
__noinline int parse_value(u32 at, u32 len, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !out || at > SCRATCH || len > SCRATCH)
		return SCAN_END;
	u32 space = payload_space(&sc->bytes[at]);
	if (at + space + TRACEPARENT_VALUE >= len)
		return SCAN_BAD;
	u8 *value = &sc->bytes[at + space];
	int version = payload_traceparent(value, out);
	u8 *end = value + TRACEPARENT_VALUE;
	if (version && (payload_line_ends(end) || (version > 1 && end[0] == '-')))
		return SCAN_FOUND; /* later versions may go on */
	return SCAN_BAD;
}

/* Looks behind each line end among the 8 bytes at. What lies behind len is another request's. */
__noinline int parse_lines(u32 at, u32 len, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !out || at >= SCRATCH || len > SCRATCH)
		return SCAN_END;
	for (u32 j = 0; j < 8; j++) {
		u32 line = at + j + 1;
		u8 *p = &sc->bytes[line];
		if (p[-1] != '\n')
			continue;
		if (p[0] == '\n' || (p[0] == '\r' && p[1] == '\n')) /* the body begins */
			return line + (p[0] == '\r') < len ? SCAN_END : SCAN_CUT;
		if (line + 12 > len)
			return SCAN_CUT;
		if (payload_is_traceparent_key(p))
			return parse_value(line + 12, len, out);
	}
	return SCAN_ON;
}

/* Behind a line end among these 8 bytes may be the header or the body; next: the 8 bytes one further. */
INLINE bool line_matters(u64 w, u64 next)
{
	u64 lines = payload_equal(w, '\n');
	return lines && lines & (payload_equal(next | 0x20 * PAYLOAD_ONES, 't') |
				 payload_equal(next, '\r') | payload_equal(next, '\n'));
}

/* Goes on with the PARSED words at. Returns 1 when there is no more to be seen. Global, too. */
__noinline int parse_words(u32 at, struct traceparent_walk *w)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !w || at > SCRATCH - 8 * PARSED)
		return 1;
	u8 *p = &sc->bytes[at];
	for (u32 j = 0; j < PARSED; j++) {
		if (at + 8 * j >= w->limit)
			return 0;
		if (!line_matters(payload_eight(&p[8 * j]), payload_eight(&p[8 * j + 1])))
			continue;
		u32 result = parse_lines(at + 8 * j, w->len, &w->parent);
		if (result == SCAN_ON)
			continue;
		if (result == SCAN_FOUND && !w->found) {
			w->found = 1; /* there may be another */
			continue;
		}
		if (result == SCAN_FOUND || result == SCAN_BAD)
			w->found = 0;
		w->whole = result != SCAN_CUT;
		return 1;
	}
	return 0;
}

/*
 * Whether an HTTP/1 request carries one traceparent, and that is valid. The walk says then if its header was seen to its end.
 */
__noinline int find_traceparent(const struct bytes *b, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b || !out || !b->data)
		return 0;
	struct traceparent_walk *w = &sc->walk;
	w->found = 0;
	for (u32 i = 0; i < WINDOWS; i++) {
		u32 left = b->len - i * WINDOW_BYTES, ends = 0;
		u64 len = AT_MOST(left, SCRATCH);
		if (len < 16 || bpf_probe_read_user(sc->bytes, len, b->data + i * WINDOW_BYTES))
			break;
		if (!i && payload_kind(sc->bytes, len) != PAYLOAD_HTTP_REQUEST)
			return 0;
		w->whole = 0;
		w->len = len;
		w->limit = left > SCRATCH ? WINDOW_BYTES : SCRATCH;
		for (u32 at = 0; at < SCRATCH && at < len && !ends; at += 8 * PARSED)
			ends = parse_words(at, w);
		if (ends || left <= SCRATCH)
			break;
	}
	if (!w->found)
		return 0;
	*out = w->parent;
	return 1;
}

#endif
