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

static __noinline int parse_parent(struct scratch *sc, u32 at, struct payload_parent *out)
{
	if (!sc || !out || at >= SCRATCH)
		return 0;
	u8 *p = &sc->bytes[at];
	if (!payload_is_traceparent_key(p))
		return 0;
	u32 skip = 12;
	if (p[12] == ' ')
		skip = 13;
	return payload_traceparent(p + skip, out);
}

struct scan {
	struct scratch *sc;
	struct payload_parent *out;
	u32 len;
	int found;
};

static long scan_word(u32 i, struct scan *scan)
{
	u32 at = i * 8;
	if (at >= SCRATCH || at >= scan->len)
		return 1;
	u64 w = *(u64 *)&scan->sc->bytes[at] ^ LINES;
	u64 hit = (w - ONES) & ~w & HIGHS;
	if (!hit)
		return 0;
	for (int j = 0; j < 8; j++) {
		u32 next = at + j + 1;
		if (!(hit >> (8 * j) & 0x80) || next >= SCRATCH)
			continue;
		if ((payload_word(&scan->sc->bytes[next]) | 0x20202020) != PAYLOAD_WORD('t', 'r', 'a', 'c'))
			continue;
		if (parse_parent(scan->sc, next, scan->out)) {
			scan->found = 1;
			return 1;
		}
	}
	return 0;
}

INLINE bool find_traceparent(struct bytes b, struct payload_parent *out)
{
	u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&scratch, &zero);
	u32 len = b.len < SCRATCH ? b.len : SCRATCH;
	if (!sc || !b.data || len < 16)
		return false;
	if (bpf_probe_read_user(sc->bytes, len, b.data))
		return false;
	if (payload_kind(sc->bytes, len) != PAYLOAD_HTTP_REQUEST)
		return false;
	/* what lies behind the end was read for another request: it must not be believed */
	if (len < SCRATCH)
		__builtin_memset(&sc->bytes[len & (SCRATCH - 1)], 0, 80);
	struct scan scan = {.sc = sc, .out = out, .len = len};
	bpf_loop(SCRATCH / 8, scan_word, &scan, 0);
	return scan.found;
}

#endif
