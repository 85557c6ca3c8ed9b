/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TARE_TAG_IP: whether packets with IP options reach a peer. Many networks drop them, so nothing but
 * one segment at a time is risked until a path is known to pass them on:
 *
 *	              the next send probes                      a mark came back
 *	  unknown ───────────────────────────▶ probed ─────────────────────────────▶ good
 *	     ▲  ▲                               │  │                                  │
 *	     │  └── PATH_SILENT_NS ── silent ◀──┘  │ the segment was sent again       │ so often lost
 *	     │             acknowledged, and       ▼                                  │ without a success
 *	     │             answered without a mark  bad ◀─────────────────────────────┘ in between
 *	     └───────────────── PATH_BAD_NS ────────┘
 *
 * A client's path leads to an address and port: who does not listen there cannot answer. What drops
 * options does so for the whole address, which then is bad under port 0. A server that answers asks
 * there, too: its answer follows an option that came, and passes if it is acknowledged at once.
 */
#ifndef TARE_PATH_H
#define TARE_PATH_H

#define PATH_PROBE_NS  10000000000ull
#define PATH_SILENT_NS 10000000000ull
#define PATH_BAD_NS    300000000000ull
#define PATH_LOST      3

enum carries {
	PATH_SHUT = 0,
	PATH_PROBED = 1, /* one segment of this connection */
	PATH_GOOD = 2,
};

struct path_key {
	u8 address[16]; /* IPv4 mapped into IPv6 */
	u32 port;
};

struct path {
	u64 until; /* unless it is good: nothing before this time (CLOCK_MONOTONIC, ns) */
	u32 good;
	u32 lost; /* segments since the last success */
};

static const struct path path_unknown;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct path_key);
	__type(value, struct path);
} paths SEC(".maps");

INLINE void path_key(struct path_key *k, const struct conn *c, u32 port)
{
	__builtin_memset(k, 0, sizeof(*k));
	k->port = port;
	if (c->family == AF_INET6) {
		__builtin_memcpy(k->address, c->remote, sizeof(k->address));
	} else {
		k->address[10] = k->address[11] = 0xff;
		__builtin_memcpy(k->address + 12, c->remote, 4);
	}
}

INLINE u32 path_port(const struct conn *c)
{
	return c->flags & C_CLIENT ? c->remote_port : 0;
}

INLINE struct path *path_of(const struct conn *c, u32 port)
{
	struct path_key k;
	path_key(&k, c, port);
	return bpf_map_lookup_elem(&paths, &k);
}

INLINE struct path *path_create(const struct conn *c, u32 port)
{
	struct path_key k;
	path_key(&k, c, port);
	struct path *p = bpf_map_lookup_elem(&paths, &k);
	if (p)
		return p;
	bpf_map_update_elem(&paths, &k, &path_unknown, BPF_NOEXIST);
	return bpf_map_lookup_elem(&paths, &k);
}

INLINE bool path_shut(const struct path *p, u64 now)
{
	return p && !p->good && now < p->until;
}

/*
 * Whether a segment that the connection is about to send may have an option; the socket is locked.
 * Of clients that do not know the path one becomes the prober.
 */
__noinline int path_open(struct conn *c)
{
	struct path *p = c ? path_create(c, path_port(c)) : 0;
	if (!p)
		return 0;
	u64 now = bpf_ktime_get_ns(), until = p->until;
	if (p->good)
		c->path.carries = PATH_GOOD;
	else if (c->flags & C_SERVER)
		c->path.carries = now < until ? PATH_SHUT : PATH_PROBED;
	else if (now < until)
		return c->path.carries == PATH_PROBED && !c->path.told;
	else if (path_shut(path_of(c, 0), now) ||
		 __sync_val_compare_and_swap(&p->until, until, now + PATH_PROBE_NS) != until)
		c->path.carries = PATH_SHUT;
	else
		c->path.carries = PATH_PROBED;
	if (c->path.carries == PATH_PROBED && c->flags & C_CLIENT)
		c->path.told = 0;
	return c->path.carries;
}

INLINE bool path_is_good(const struct conn *c)
{
	struct path *p = path_of(c, path_port(c));
	return p && p->good;
}

/* A segment with an option has arrived. */
INLINE void path_arrived(const struct conn *c)
{
	struct path *p = path_of(c, path_port(c));
	if (p && p->lost)
		p->lost = 0;
}

/* And that shows that the path passes options on. */
__noinline int path_passes(const struct conn *c)
{
	struct path *p = c ? path_create(c, path_port(c)) : 0;
	if (!p)
		return 0;
	if (!p->good)
		count(TARE_C_PATH_PASSES);
	p->lost = 0;
	p->good = 1;
	return 0;
}

INLINE void path_close(struct path *p, u64 until)
{
	p->until = until;
	p->lost = 0;
	p->good = 0;
}

/* A segment with an option had to be sent again. */
__noinline int path_lost(struct conn *c)
{
	struct path *p = c ? path_of(c, path_port(c)) : 0;
	bool probed = c && c->path.carries == PATH_PROBED;
	if (c)
		c->path.carries = PATH_SHUT;
	if (!p || (p->good ? __sync_fetch_and_add(&p->lost, 1) + 1 != PATH_LOST : !probed))
		return 0; /* not bad yet, or another connection has found out */
	u64 until = bpf_ktime_get_ns() + PATH_BAD_NS;
	path_close(p, until);
	p = path_create(c, 0);
	if (p)
		path_close(p, until);
	count(TARE_C_PATH_DROPS);
	return 0;
}

/* A mark arrived, or its bytes did, and none came back. */
__noinline int path_unanswered(struct conn *c)
{
	struct path *p = c ? path_of(c, path_port(c)) : 0;
	if (c)
		c->path.carries = PATH_SHUT;
	if (!p || (p->good && __sync_fetch_and_add(&p->lost, 1) + 1 < PATH_LOST))
		return 0;
	path_close(p, bpf_ktime_get_ns() + PATH_SILENT_NS);
	count(TARE_C_PATH_SILENT);
	return 0;
}

#endif
