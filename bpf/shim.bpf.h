/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shims: a service's owner has loaded one into it, and it shows in a table in its memory whose work
 * each thread does, by tokens (runtimes/PROTOCOL.md). Here is what each stands for: a token is bound
 * to the request whose bytes it was the receipt of, sampled or not. A process that makes tokens up
 * finds its own requests alone.
 */
#ifndef TARE_SHIM_H
#define TARE_SHIM_H

#define SHIM_PROBES	4
#define SHIM_RECORD	64
#define SHIM_READS_TAKE 1	   /* flag: every read that brings bytes takes the receipt */
#define SHIM_SHARED	1000000000 /* ns that a connection counts as shared */

struct shim_record {
	u32 tid, flags;
	u64 current, unused, receipt;
};

/* What tokens stand for; the oldest give way. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct worker);
	__type(value, struct context);
} tokens SEC(".maps");

/* The thread's number in the innermost pid namespace, as it knows it itself. */
INLINE u32 own_tid(void)
{
	struct pid *pid = BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			  (u64)level * bpf_core_type_size(struct upid);
	return BPF_CORE_READ(at, nr);
}

/* The record of the thread that runs; false: it has none. */
__noinline int shim_record(const struct task_shim *s, struct shim_record *r)
{
	if (!s || !r)
		return false;
	u32 tid = own_tid();
	u32 first = ((u64)(u32)(tid * 0x9E3779B1) * s->slots) >> 32;
	for (u32 i = 0; i < SHIM_PROBES; i++) {
		u64 slot = (first + i) & (s->slots - 1);
		if (bpf_probe_read_user(r, sizeof(*r), (void *)(s->table + slot * SHIM_RECORD)) ||
		    !r->tid)
			return false;
		if (r->tid == tid)
			return true;
	}
	return false;
}

INLINE void shim_token(struct worker *w, u64 token)
{
	w->id = token;
	w->tgid = bpf_get_current_task_btf()->tgid;
	w->kind = WORKER_TOKEN;
}

/* Bytes of a request are received: they are the receipt's. Returns 0, or enum unlinked. */
__noinline int shim_receives(const struct task_shim *s, struct worker *w)
{
	struct shim_record r;
	if (!s || !w)
		return 0;
	if (!s->table)
		return TARE_UNLINKED_RUNTIME;
	if (!shim_record(s, &r))
		return TARE_UNLINKED_TASK;
	struct thread_state *t =
	    r.flags & SHIM_READS_TAKE ? thread_create(bpf_get_current_task_btf()) : 0;
	if (t)
		t->receipt = r.receipt;
	shim_token(w, r.receipt);
	return 0;
}

/* Something is sent, for whom the thread works. */
__noinline int shim_sends(const struct task_shim *s, struct worker *w)
{
	struct shim_record r;
	if (!s || !w)
		return 0;
	if (!s->table)
		return TARE_UNLINKED_RUNTIME;
	if (!shim_record(s, &r))
		return TARE_UNLINKED_TASK;
	struct thread_state *t = r.flags & SHIM_READS_TAKE ? thread_find() : 0;
	if (!r.current || (t && t->receipt == r.receipt)) /* read past the shim */
		return TARE_UNLINKED_NO_REQUEST;
	shim_token(w, r.current);
	return 0;
}

__noinline int shim_binds(const struct worker *w, const struct context *ctx)
{
	if (!w || !ctx)
		return 0;
	struct worker key = *w;
	struct context value = *ctx;
	bpf_map_update_elem(&tokens, &key, &value, BPF_ANY);
	return 0;
}

/* An answer is received: the thread goes on with what it does. */
__noinline int shim_answered(const struct task_shim *s)
{
	struct shim_record r;
	struct worker w = {};
	if (!s || !s->table || !shim_record(s, &r))
		return 0;
	shim_token(&w, r.current);
	struct context *held = r.current ? bpf_map_lookup_elem(&tokens, &w) : 0;
	w.id = r.receipt;
	if (held)
		shim_binds(&w, held);
	else
		bpf_map_delete_elem(&tokens, &w);
	return 0;
}

/* By whoever has a token. Returns 0 and its context, or enum unlinked. */
INLINE int shim_asks(struct conn *c, const struct worker *w, u32 fresh, struct context *ctx)
{
	struct worker key = *w;
	u64 now = bpf_ktime_get_ns();
	if (!fresh) {
		if (key.id != c->client.token)
			c->client.shared = now;
		return TARE_UNLINKED_SHARED;
	}
	c->client.token = key.id;
	struct context *held = bpf_map_lookup_elem(&tokens, &key);
	if (!held)
		return TARE_UNLINKED_NO_REQUEST;
	if (!held->span)
		return 0;
	if (now - c->client.shared < SHIM_SHARED)
		return TARE_UNLINKED_SHARED;
	if (!in_flight(held))
		return TARE_UNLINKED_STALE;
	*ctx = *held;
	return 0;
}

#endif
