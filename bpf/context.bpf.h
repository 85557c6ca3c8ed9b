/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Contexts: drawn, held by a thread, alive or not.
 *
 * A thread holds the context of the request it works for:
 *
 *	thread linking  set by each receive of a request, cleared when its response begins
 *	loop linking    set by each receive on any traced socket (a request, or the response to what
 *			a request caused), taken by the first connect or send that follows; void if
 *			the thread slept in between, since only the next receive says what it
 *			works for then
 */
#ifndef TARE_CONTEXT_H
#define TARE_CONTEXT_H

INLINE u64 random64(void)
{
	return (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

INLINE u64 random_id(void)
{
	u64 id = random64();
	return id ? id : 1;
}

INLINE bool alive(const struct context *ctx)
{
	u32 slot = ctx->slot;
	u64 *held = bpf_map_lookup_elem(&requests, &slot);
	return held && *held == ctx->span;
}

INLINE bool any_alive(void)
{
	return *(volatile u64 *)&live_requests != 0;
}

INLINE void thread_set(const struct context *ctx, bool loop)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t =
	    bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count(TARE_C_STORAGE_FULL);
		return;
	}
	t->ctx = *ctx;
	t->nvcsw = task->nvcsw;
	t->loop = loop;
}

/* The thread's state, if it can matter: what it held is dead while no sampled request is alive. */
INLINE struct thread_state *thread_held(void)
{
	if (!any_alive())
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!task->bpf_storage)
		return 0;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* The thread works for no sampled request. */
INLINE void thread_clear(void)
{
	struct thread_state *t = thread_held();
	if (t && t->ctx.span)
		t->ctx.span = 0;
}

/*
 * The thread received on a socket that is not traced, or not armed: an event loop turned to other
 * work, and its next send must not be taken for that of the request before.
 */
INLINE void thread_turned(void)
{
	struct thread_state *t = thread_held();
	if (t && t->loop)
		t->ctx.span = 0;
}

INLINE void thread_clear_if(u64 span)
{
	struct thread_state *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (t && t->ctx.span == span)
		t->ctx.span = 0;
}

/* What the thread works for. False where nothing is known. */
INLINE bool thread_get(bool take, bool must_not_sleep, struct context *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || !t->ctx.span)
		return false;
	if (must_not_sleep && t->nvcsw != task->nvcsw) {
		count(TARE_C_LINK_STALE);
		t->ctx.span = 0;
		return false;
	}
	*ctx = t->ctx;
	if (take)
		t->ctx.span = 0;
	return true;
}

/* A request begins to live. False: too many at once; it is not traced then. */
INLINE bool request_begin(struct context *ctx)
{
	for (u32 i = 0; i < 4; i++) {
		u32 slot = ((u32)ctx->span + i * 0x4001) & (SLOTS - 1);
		u64 *held = bpf_map_lookup_elem(&requests, &slot);
		if (held && !__sync_val_compare_and_swap(held, 0, ctx->span)) {
			ctx->slot = slot;
			__sync_fetch_and_add(&live_requests, 1);
			return true;
		}
	}
	count(TARE_C_REQUESTS_FULL);
	return false;
}

INLINE void request_end(const struct context *ctx)
{
	u32 slot = ctx->slot;
	u64 *held = bpf_map_lookup_elem(&requests, &slot);
	if (held && __sync_val_compare_and_swap(held, ctx->span, 0) == ctx->span)
		__sync_fetch_and_add(&live_requests, -1);
}

/* Notes that a tag begins a request. False: it did before. */
INLINE bool tag_note(u64 span)
{
	u32 slot = (u32)span & (SLOTS - 1);
	u64 *last = bpf_map_lookup_elem(&seen, &slot);
	if (!last || *last == span)
		return false;
	*last = span;
	return true;
}

INLINE bool tag_noted(u64 span)
{
	u32 slot = (u32)span & (SLOTS - 1);
	u64 *last = bpf_map_lookup_elem(&seen, &slot);
	return last && *last == span;
}

#endif
