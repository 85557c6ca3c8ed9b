/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which span of an SDK is current, as the SDK publishes it for readers outside of its process
 * (OpenTelemetry's OTEP 4947): a thread-local variable points to a record, or to nothing. The agent
 * has found out where the variable is (agent/runtime/published.go). It is read where a span of
 * Tare's, of a sampled request, meets a thread that is known to work for that request: when a call is
 * linked, and when a response begins. It links nothing: what a process writes there is said of the
 * process's own spans.
 */
#ifndef TARE_PUBLISHED_H
#define TARE_PUBLISHED_H

struct publisher {
	struct task_path record; /* to the record */
	u32 module; /* not 0: at[0] leads to a vector that has the module only if it is so long */
};

/* By process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct publisher);
} publishers SEC(".maps");

/* A process forks: its memory is the same, until it runs another program. */
INLINE void published_forked(u32 from, u32 to)
{
	struct publisher *p = bpf_map_lookup_elem(&publishers, &from);
	if (p)
		bpf_map_update_elem(&publishers, &to, p, BPF_ANY);
}

/* What an SDK writes, up to its attributes. */
struct published {
	u64 trace[2];
	u64 span;
	u8 valid; /* 1: all of it is written */
	u8 flags; /* as in traceparent */
	u16 attributes;
	u32 pad;
};

#define PUBLISHED_READ 28 /* bytes of it that are there */

/* A thread's vector of modules has room for those that were loaded when it was last made longer. */
INLINE bool published_has_module(const struct publisher *p)
{
	u64 vector = task_word(thread_pointer(bpf_get_current_task_btf()) + p->record.at[0]);
	return vector && task_word(vector - 16) >= p->module;
}

/*
 * Reads the running thread's record. The thread is in the kernel, so it writes nothing meanwhile; a
 * process whose other threads write there is caught by the second look, or harms its own spans.
 */
INLINE bool published_read(const struct publisher *p, struct published *r)
{
	struct published again = {};
	if (p->module && !published_has_module(p))
		return false;
	u64 at = task_follow(&p->record);
	if (!at || bpf_probe_read_user(r, PUBLISHED_READ, (void *)at) || r->valid != 1 ||
	    !(r->trace[0] | r->trace[1]) || !r->span)
		return false;
	if (bpf_probe_read_user(&again, PUBLISHED_READ, (void *)at))
		return false;
	return again.valid == 1 && again.trace[0] == r->trace[0] && again.trace[1] == r->trace[1] &&
	       again.span == r->span;
}

/* The thread that runs works for the request with this span, or has begun the call. */
__noinline int publish(u64 span)
{
	struct published r = {};
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct publisher *p = bpf_map_lookup_elem(&publishers, &tgid);
	if (!p || !published_read(p, &r))
		return 0;
	struct published_record *e;
	RECORD(span, e, sizeof(*e), ({
		       __builtin_memset(e, 0, sizeof(*e));
		       e->type = TARE_PUBLISHED;
		       e->flags = r.flags;
		       e->span_id = span;
		       __builtin_memcpy(e->sdk_trace, r.trace, sizeof(e->sdk_trace));
		       __builtin_memcpy(e->sdk_span, &r.span, sizeof(e->sdk_span));
	       }));
	return 0;
}

#endif
