/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose requests are whose while one agent takes over from another. Both are attached then, and both
 * see every request. A request belongs to the agent whose turn it was when its bytes arrived: that
 * time is in the socket, the same for both, which a look at a clock would not be.
 *
 *	from, until	  arrival times (CLOCK_MONOTONIC, ns) of requests that begin here
 *	written by	  this agent; until also by the one that takes over, agent/claim
 *
 * What has begun goes on: its calls carry tags, and its response ends it, whoever's turn it is. A tag
 * that comes over the wire is seen by both and taken by whose turn it is; one in an inbox only by
 * the agent that left it there.
 */
#ifndef TARE_CLAIM_H
#define TARE_CLAIM_H

#define CLAIM_VERSION  1
#define CLAIM_LEVELS   16
#define CLAIM_INSTANCE 32

/* Other versions of the agent read and write this: a change of it needs another CLAIM_VERSION. */
struct claim {
	u64 from, until;
	u64 clock;  /* when tare_claim ran last */
	u64 cgroup; /* below which this agent traces */
	u64 above
	    [CLAIM_LEVELS]; /* the control group of the agent and those above it, from the root */
	u32 version;
	u32 pid;	 /* in the first namespace of processes */
	u32 holds;	 /* it traces; else it is about to */
	u32 successor;	 /* id of the program tare_claim of the agent that takes over */
	u32 replaceable; /* whether one may */
	u32 pad;
	u8 instance[CLAIM_INSTANCE]; /* agents of different instances leave each other alone */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct claim);
} claims SEC(".maps");

INLINE bool in_turn(u64 arrived)
{
	u32 zero = 0;
	struct claim *c = bpf_map_lookup_elem(&claims, &zero);
	return c && arrived >= c->from && arrived < c->until;
}

/* Another agent takes over: marks are its affair, and its tags need the room. */
INLINE bool is_succeeded(void)
{
	u32 zero = 0;
	struct claim *c = bpf_map_lookup_elem(&claims, &zero);
	return c && c->until != ~0ULL;
}

/* When the bytes arrived that are read, or parsed, now. */
#define ARRIVED(tp, GET) (GET(tp, tcp_mstamp) * 1000)

#endif
