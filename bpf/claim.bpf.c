//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent's claim to this host. Every agent loads this program, so whoever asks the kernel for the
 * programs that it has finds all agents, in whatever namespaces they are, and none that has ended.
 * The agent runs it: only the kernel knows its process id outside of its own namespaces. It is an object of its own,
 * since the other programs, which share its map, take long to read.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "claim.bpf.h"

SEC("syscall")
int tare_claim(void *ctx)
{
	u32 zero = 0;
	struct claim *c = bpf_map_lookup_elem(&claims, &zero);
	if (!c)
		return 0;
	c->clock = bpf_ktime_get_ns();
	c->pid = bpf_get_current_pid_tgid() >> 32;
	for (int level = 0; level < CLAIM_LEVELS; level++)
		c->above[level] = bpf_get_current_ancestor_cgroup_id(level);
	return 0;
}

/* bpf2go makes a Go type of it. */
const struct claim *unused_claim __attribute__((unused));

char _license[] SEC("license") = "Dual BSD/GPL";
