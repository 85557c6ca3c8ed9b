/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the traceparent header in the first KiB of an HTTP/1 request. Eight bytes at a time: most
 * words hold no line end. Two such headers are none (W3C trace context 3.2.1): which of them is
 * true is not known.
 */
#ifndef TARE_TRACEPARENT_H
#define TARE_TRACEPARENT_H

enum scan_result { SCAN_ON = 0, SCAN_FOUND = 1, SCAN_END = 2, SCAN_BAD = 3 };

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
	if (payload_traceparent(value, out) && payload_line_ends(value + TRACEPARENT_VALUE))
		return SCAN_FOUND;
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
		if (line + 12 > len)
			return SCAN_END;
		if (p[0] == '\n' || (p[0] == '\r' && p[1] == '\n'))
			return SCAN_END; /* the body begins */
		if (payload_is_traceparent_key(p))
			return parse_value(line + 12, len, out);
	}
	return SCAN_ON;
}

struct traceparent_walk {
	u64 len, found;
	struct payload_parent parent;
};

static int parse_word(u32 i, struct traceparent_walk *w)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	u64 at = 8 * (u64)i;
	if (!sc || at >= SCRATCH || at >= w->len)
		return 1;
	if (!has_newline(*(u64 *)&sc->bytes[at]))
		return 0;
	u32 result = parse_lines(at, w->len, &w->parent);
	if (result == SCAN_ON)
		return 0;
	if (result == SCAN_FOUND && !w->found) {
		w->found = 1;
		return 0; /* there may be another */
	}
	if (result != SCAN_END)
		w->found = 0;
	return 1;
}

/* Whether an HTTP/1 request carries one traceparent, and that is valid. */
__noinline int find_traceparent(const struct bytes *b, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	if (!sc || !b || !out)
		return 0;
	u64 len = AT_MOST(b->len, SCRATCH);
	if (!b->data || len < 16 || bpf_probe_read_user(sc->bytes, len, b->data))
		return 0;
	if (payload_kind(sc->bytes, len) != PAYLOAD_HTTP_REQUEST)
		return 0;
	struct traceparent_walk w = {.len = len};
	bpf_loop(SCRATCH / 8, parse_word, &w, 0);
	if (!w.found)
		return 0;
	*out = w.parent;
	return 1;
}

#endif
