/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Task linking: which task, coroutine or virtual thread a thread runs now, read from the memory of
 * its runtime. The agent has found out where that is (agent/runtime) and told it by process, as
 * data: paths of loads from the thread pointer, offsets, and what to compare. What is read:
 *
 *	Java      the id of the virtual thread that is mounted: of JavaThread's owner of monitors
 *		  (JDK 24), or of the object of the thread (21 to 23), which the garbage collector moves
 *	greenlet  the address of the current greenlet, if it is not the thread's main one
 *	asyncio   at a receive, that of the transport whose callback reads; at a send, of the one that
 *		  the outermost coroutine of the running task has in its first variables, or in the
 *		  fields of the objects in them. Of several that it may be, none is taken
 *
 * Nothing of it: the thread works as such, under the guard. It cannot be read: nothing is linked.
 * Whatever a process has in its memory, only its own requests are found by it.
 */
#ifndef TARE_TASK_H
#define TARE_TASK_H

#define TASK_PATH	 6
#define TASK_ASKS_PAUSE	 500000000 /* ns, after which the agent is asked again to read a process */
#define TASK_FRAMES	 192	   /* deep, at most; with more, nothing is linked */
#define TASK_LOCALS	 3	   /* of a coroutine, that are looked at */
#define TASK_FIELDS	 30	   /* of an object */
#define TASK_FRAME_OWNED 1	   /* FRAME_OWNED_BY_GENERATOR */
#define TASK_CODE_FLAGS	 48	   /* co_flags, 4 bytes of a code object; 3.11 to 3.14 */
#define TASK_COROUTINE                                                                             \
	0x180 /* CO_COROUTINE, CO_ITERABLE_COROUTINE: what a task can run, as no generator can */

/* Loads, each of 8 bytes: from the thread pointer, from where the one before points. */
struct task_path {
	u32 n;
	s32 at[TASK_PATH];
};

enum task_state {
	TASK_ASKED = 0, /* the agent is to read the process */
	TASK_READ = 1,
};

struct task_java {
	struct task_path thread; /* to JavaThread; n = 0: no virtual threads */
	s32 entry;		 /* virtual if not 0; owner: the id. JDK 24 */
	s32 owner;
	s32 virtual_thread; /* handles, JDK 21 to 23 */
	s32 thread_object;
	s32 id;		 /* in the object */
	u32 handles;	 /* 1: by these */
	u64 active;	 /* byte: objects move */
	u64 collections; /* 4 bytes: how often they have */
};

struct task_greenlet {
	struct task_path state; /* n = 0: none */
	s32 main, current;
	u64 type; /* of main greenlets */
};

struct task_python {
	struct task_path frame; /* n = 0: not known */
	s32 previous, owner, code, locals;
	s32 dict, values, valid, first, capacity; /* attributes; agent/runtime/cpython */
	u64 tag;				  /* bits of locals that are no address */
	u64 flag;				  /* of types whose objects have such attributes */
};

/* What a shim shows: shim.bpf.h. */
struct task_shim {
	u64 table; /* address of its first record; 0: none */
	u32 slots;
	u32 needed; /* 1: without it nothing is known, threads are loops */
};

struct task_program {
	u64 asked_at;
	u32 state; /* enum task_state */
	u32 pad;
	u64 code; /* pages of code when it was read, without greenlet; 0: no matter */
	struct task_shim shim;
	struct task_java java;
	struct task_greenlet greenlet;
	struct task_python python;
};

/* By process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct task_program);
} task_programs SEC(".maps");

static const struct task_program task_unread;

INLINE u64 task_word(u64 at)
{
	u64 word = 0;
	return bpf_probe_read_user(&word, sizeof(word), (void *)at) ? 0 : word;
}

__noinline u64 task_follow(const struct task_path *p)
{
	if (!p)
		return 0;
	u64 v = thread_pointer(bpf_get_current_task_btf());
	for (u32 i = 0; i < TASK_PATH; i++) {
		if (i >= p->n || !v)
			break;
		v = task_word(v + p->at[i]);
	}
	return v;
}

/* The id of the mounted virtual thread; 0: none, 1: not to be known now. */
INLINE u64 task_java(const struct task_java *j)
{
	u64 thread = task_follow(&j->thread);
	if (!thread)
		return 0;
	if (!j->handles)
		return task_word(thread + j->entry) ? task_word(thread + j->owner) ?: 1 : 0;
	u32 before = 0, after = 0;
	u8 active = 1;
	if (bpf_probe_read_user(&before, sizeof(before), (void *)j->collections) ||
	    bpf_probe_read_user(&active, sizeof(active), (void *)j->active) || active)
		return 1;
	u64 object = task_word(task_word(thread + j->virtual_thread));
	u64 own = task_word(task_word(thread + j->thread_object));
	u64 id = object ? task_word(object + j->id) : 0;
	if (bpf_probe_read_user(&after, sizeof(after), (void *)j->collections) || before != after ||
	    bpf_probe_read_user(&active, sizeof(active), (void *)j->active) || active)
		return 1;
	return object && object != own ? id ?: 1 : 0;
}

/* The current greenlet; 0: the thread's main one, or there is none; 1: not to be known. */
INLINE u64 task_greenlet(const struct task_greenlet *g)
{
	u64 state = task_follow(&g->state);
	if (state <= 1) /* ended; no greenlet yet */
		return 0;
	u64 main = task_word(state + g->main), current = task_word(state + g->current);
	if (task_word(main + 8) != g->type)
		return 1;
	return current == main ? 0 : current ?: 1;
}

/* ---- asyncio ---- */

/* "_SelectorSocketTransport", with the zero behind it. */
INLINE bool is_transport(u64 object)
{
	u64 name = task_word(task_word(object + 8) + 24);
	u8 end = 1;
	return name && task_word(name) == 0x6f7463656c65535fULL &&
	       task_word(name + 8) == 0x5474656b636f5372ULL &&
	       task_word(name + 16) == 0x74726f70736e6172ULL &&
	       !bpf_probe_read_user(&end, sizeof(end), (void *)(name + 24)) && !end;
}

/* The transport whose callback reads; 0: none does. */
INLINE u64 task_transport(const struct task_python *p)
{
	u64 frame = task_follow(&p->frame);
	u64 self = frame ? task_word(frame + p->locals) & ~p->tag : 0;
	return self && is_transport(self) ? self : 0;
}

/* From the innermost frame of a thread outwards. */
struct task_walk {
	u64 frame;
	u64 last; /* that of a coroutine */
	s32 previous, owner, code;
	u32 failed;
};

/* What is looked for among an object's words: transports of accepted connections. */
struct task_find {
	struct worker found;
	u64 n;	/* different ones */
	u64 at; /* the next word */
	u64 step, left;
	u64 tag; /* bits of a word that are no address */
	struct task_walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_find);
} finds SEC(".maps");

INLINE struct task_find *find_here(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&finds, &zero);
}

static int walk_frame(u32 i, void *unused)
{
	struct task_find *f = find_here();
	u8 owner = 0;
	u32 flags = 0;
	if (!f || !f->walk.frame)
		return 1;
	struct task_walk *w = &f->walk;
	if (bpf_probe_read_user(&owner, sizeof(owner), (void *)(w->frame + w->owner))) {
		w->failed = 1;
		return 1;
	}
	if (owner == TASK_FRAME_OWNED) {
		u64 code = task_word(w->frame + w->code) & ~f->tag;
		if (bpf_probe_read_user(&flags, sizeof(flags), (void *)(code + TASK_CODE_FLAGS))) {
			w->failed = 1;
			return 1;
		}
		if (flags & TASK_COROUTINE)
			w->last = w->frame;
	}
	w->frame = task_word(w->frame + w->previous);
	return 0;
}

INLINE void find_word(struct task_find *f, u64 word)
{
	struct worker w = {.id = word, .tgid = f->found.tgid, .kind = WORKER_TRANSPORT};
	if (word == f->found.id || !guard_of(&w))
		return;
	f->found.id = word;
	f->n++;
}

static int find_next(u32 i, void *unused)
{
	struct task_find *f = find_here();
	if (!f || !f->left)
		return 1;
	f->left--;
	find_word(f, task_word(f->at) & ~f->tag);
	f->at += 8;
	return 0;
}

INLINE void find_words(struct task_find *f, u64 at, u64 n)
{
	f->at = at;
	f->left = n < TASK_FIELDS ? n : TASK_FIELDS;
	bpf_loop(TASK_FIELDS, find_next, 0, 0);
}

/* The values of attributes, in an order of bytes below them. */
static int find_ordered(u32 i, void *unused)
{
	struct task_find *f = find_here();
	u8 index = 0;
	if (!f || !f->left)
		return 1;
	f->left--;
	if (bpf_probe_read_user(&index, sizeof(index), (void *)f->step))
		return 1;
	f->step--;
	find_word(f, task_word(f->at + 8 * (u64)index) & ~f->tag);
	return 0;
}

/* The attributes of an object that are in no field of its own. */
INLINE void find_attributes(struct task_find *f, const struct task_python *p, u64 object, u64 type,
			    u64 size)
{
	u8 n = 0, valid = 0;
	if (!(task_word(type + 168) & p->flag))
		return;
	if (!p->values) {
		u64 values = object + size;
		if (bpf_probe_read_user(&valid, sizeof(valid), (void *)(values + p->valid)) ||
		    valid != 1 ||
		    bpf_probe_read_user(&n, sizeof(n), (void *)(values + p->capacity)))
			return;
		find_words(f, values + p->first, n);
		return;
	}
	u64 values = task_word(object + p->values);
	if (p->values == p->dict) {
		if (!(values & 1))
			return;
		values++;
	}
	if (!values || bpf_probe_read_user(&n, sizeof(n), (void *)(values + p->capacity)))
		return;
	f->at = values + p->first;
	f->step = values + p->capacity - 1;
	f->left = n < TASK_FIELDS ? n : TASK_FIELDS;
	bpf_loop(TASK_FIELDS, find_ordered, 0, 0);
}

/*
 * The transport of the request for which the running task was made. 0: no task runs; else
 * enum unlinked, or the transport in f->found.
 */
__noinline int task_coroutine(const struct task_python *p, struct task_find *f)
{
	if (!p || !f)
		return 0;
	struct task_walk *w = &f->walk;
	f->tag = p->tag;
	w->frame = task_follow(&p->frame);
	w->previous = p->previous;
	w->owner = p->owner;
	w->code = p->code;
	w->last = w->failed = 0;
	bpf_loop(TASK_FRAMES, walk_frame, 0, 0);
	u64 last = w->last;
	if (w->frame || w->failed)
		return TARE_UNLINKED_TASK;
	if (!last)
		return 0;
	find_words(f, last + p->locals, TASK_LOCALS);
	for (u32 i = 0; i < TASK_LOCALS; i++) {
		u64 object = task_word(last + p->locals + 8 * i) & ~p->tag;
		u64 type = object ? task_word(object + 8) : 0;
		if (!type)
			continue;
		u64 size = task_word(type + 32);
		if (size > 16)
			find_words(f, object + 16, (size - 16) / 8);
		find_attributes(f, p, object, type, size);
	}
	if (f->n == 1)
		return 0;
	return f->n ? TARE_UNLINKED_AMBIGUOUS : TARE_UNLINKED_NO_REQUEST;
}

#include "shim.bpf.h"

/* ---- who works now ---- */

/* It has loaded code since it was read: there may be greenlets now. */
INLINE bool task_loaded(const struct task_program *p)
{
	return p->code && p->code != READ_ONLY(bpf_get_current_task_btf())->mm->exec_vm;
}

/* What the agent has read of the current process; 0: nothing yet, and it is asked to. */
INLINE struct task_program *task_program(void)
{
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct task_program *p = bpf_map_lookup_elem(&task_programs, &tgid);
	u64 now;
	if (p && p->state == TASK_READ && !task_loaded(p))
		return p;
	if (!p) {
		bpf_map_update_elem(&task_programs, &tgid, &task_unread, BPF_NOEXIST);
		p = bpf_map_lookup_elem(&task_programs, &tgid);
	}
	now = bpf_ktime_get_ns();
	if (p && now - p->asked_at > TASK_ASKS_PAUSE) {
		p->asked_at = now;
		control_tell_of(TARE_UNREAD, tgid);
	}
	return 0;
}

/* The current process forks: the child's memory is the same, until it runs another program. */
INLINE void task_forked(u32 child)
{
	struct task_program *p = task_program();
	if (p && !p->shim.table) /* a shim's is made anew */
		bpf_map_update_elem(&task_programs, &child, p, BPF_ANY);
}

/* The virtual thread or the greenlet that runs; 0: neither, 1: not to be known. */
INLINE u64 task_runs(const struct task_program *p, struct worker *w)
{
	w->kind = WORKER_VIRTUAL;
	if (p->java.thread.n)
		return task_java(&p->java);
	w->kind = WORKER_GREENLET;
	return p->greenlet.state.n ? task_greenlet(&p->greenlet) : 0;
}

INLINE int task_is(struct worker *w, u64 id)
{
	if (id == 1)
		return TARE_UNLINKED_TASK;
	if (id) {
		w->id = id;
		w->tgid = bpf_get_current_task_btf()->tgid;
	} else {
		w->kind = WORKER_THREAD;
	}
	return 0;
}

/*
 * Who works now, in a service that is linked by tasks: a task, or the thread that *w says. Of what
 * was received first, of what is sent second. Both return 0, or enum unlinked.
 */
__noinline int task_receives(struct worker *w)
{
	struct task_program *p = task_program();
	if (!w)
		return 0;
	if (!p)
		return TARE_UNLINKED_TASK;
	if (p->shim.table || p->shim.needed)
		return shim_receives(&p->shim, w);
	u64 id = task_runs(p, w);
	if (!id && p->python.frame.n) {
		w->kind = WORKER_TRANSPORT;
		id = task_transport(&p->python);
	}
	return task_is(w, id);
}

__noinline int task_sends(struct worker *w)
{
	struct task_program *p = task_program();
	struct task_find *f = find_here();
	if (!w || !f || is_helper(thread_find()))
		return 0;
	if (!p)
		return TARE_UNLINKED_TASK;
	if (p->shim.table || p->shim.needed)
		return shim_sends(&p->shim, w);
	u64 id = task_runs(p, w);
	if (!id && p->python.frame.n) {
		__builtin_memset(f, 0, sizeof(*f));
		f->found.tgid = bpf_get_current_task_btf()->tgid;
		int why = task_coroutine(&p->python, f);
		if (why)
			return why;
		w->kind = WORKER_TRANSPORT;
		id = f->found.id;
	}
	return task_is(w, id);
}

/* An answer is received in a service that is linked by tasks. */
INLINE void task_answered(struct conn *c)
{
	struct service_state *svc = service_of(c->service);
	u32 tgid = bpf_get_current_task_btf()->tgid;
	struct task_program *p =
	    svc && svc->in_flight ? bpf_map_lookup_elem(&task_programs, &tgid) : 0;
	if (p && p->shim.table)
		shim_answered(&p->shim);
}

/* It works for a request that begins; span 0: one that is not sampled. */
__noinline int task_set(const struct worker *w, const struct context *ctx)
{
	if (!w || !ctx)
		return 0;
	if (w->kind == WORKER_TOKEN)
		return shim_binds(w, ctx);
	struct worker key = *w;
	struct context value = *ctx;
	if (!value.span) {
		if (any_in_flight())
			task_clear(w);
	} else if (bpf_map_update_elem(&tasks, &key, &value, BPF_ANY)) {
		count(TARE_C_STORAGE_FULL);
		task_clear(w);
	}
	return 0;
}

#endif
