/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the agent is told: counters; records of what happened to requests; and news of processes,
 * ports and decisions, for which it wakes. Of records the agent is woken only when their ring fills
 * up: it polls, so that a quiet host does not wake it at all.
 */
#ifndef TARE_TELL_H
#define TARE_TELL_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} control SEC(".maps");

#define UNLINKED_ROOM 32 /* a power of two, for the verifier */
_Static_assert(TARE_UNLINKED_MAX <= UNLINKED_ROOM, "room for each reason");

struct counters {
	u64 n[TARE_C_MAX];
	u64 unlinked[UNLINKED_ROOM]; /* by enum unlinked */
	u64 slots;		     /* that were taken: exchange_begin */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

INLINE struct counters *counters_here(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&counters, &zero);
}

INLINE void count(enum counter which)
{
	struct counters *c = counters_here();
	if (c && which < TARE_C_MAX)
		c->n[which]++; /* this CPU's; an interrupt may lose one */
}

/* The same, where none may be lost. */
INLINE void count_each(enum counter which)
{
	struct counters *c = counters_here();
	if (c && which < TARE_C_MAX)
		__sync_fetch_and_add(&c->n[which], 1);
}

/* Room for a record of what happened. 0: there is none, and the record is lost. */
INLINE void *record_reserve(const u64 size)
{
	void *e = bpf_ringbuf_reserve(&events, size, 0);
	if (e)
		count_each(TARE_C_RECORDS);
	else
		count_each(TARE_C_RING_FULL);
	return e;
}

#define ASKED_EVERY 16 /* records of a CPU, a power of two: how full the ring is, costs a call */

INLINE u64 ring_flags(void)
{
	struct counters *n = counters_here();
	if (n && n->n[TARE_C_RECORDS] & (ASKED_EVERY - 1))
		return BPF_RB_NO_WAKEUP;
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= cfg_wakeup_bytes
		   ? BPF_RB_FORCE_WAKEUP
		   : BPF_RB_NO_WAKEUP;
}

/* Tells the agent, which looks at everything again where that finds no room. */
INLINE void control_tell(const struct control_record *r)
{
	if (bpf_ringbuf_output(&control, (void *)r, sizeof(*r), 0))
		count_each(TARE_C_CONTROL_FULL);
}

INLINE void control_tell_of(u32 type, u32 tgid)
{
	struct control_record r = {.type = type, .tgid = tgid};
	control_tell(&r);
}

#endif
