/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks that are not their thread's own: coroutines of C++, fibers. Who works there is told by where
 * the mapping ends that the stack pointer lies in, if it lies less than STACK_TOP below that: stacks
 * begin at their upper end, so of several in one mapping (side by side, of malloc, mappings that
 * the kernel has merged) only the uppermost is ever so near, unless stacks were smaller than STACK_TOP.
 * What runs elsewhere is not told apart, and not linked.
 *
 * The kernel merges a mapping with what is mapped right above it, too, as it does the first of many processes. A
 * mapping that begins with a guard page has its first stack end where it would if it was as large as all
 * others of the service, of which STACK_SIZES were alike. Until these are known the end of the mapping stands
 * for it, if it is near; so two ends less than STACK_TOP apart are of one stack.
 *
 * The end and not the start: what is mapped right below is merged into the mapping, and moves its start.
 */
#ifndef TARE_STACK_H
#define TARE_STACK_H

#define STACK_MAX   (8 << 20)  /* bytes; the usual RLIMIT_STACK, and pthread's default */
#define STACK_SIZES 2	       /* mappings of the same size */
#define STACK_CALLS 1000       /* of a service without proof, on stacks that are not told apart */
#define STACK_TOP   (16 << 10) /* bytes; no stack that serves requests is known to be smaller */

enum stack_place {
	STACK_OWN = 0,
	STACK_SHARED = 1, /* not told apart */
	STACK_BUSY = 2,	  /* the process changes its mappings: not to be known now */
	STACK_KNOWN = 3,  /* this, and all above, is the end of a mapping */
};

INLINE u64 thread_pointer(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return task->thread.uw.tp_value;
#endif
}

INLINE u64 stack_pointer(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	return regs->sp;
}

/*
 * A thread's stack lies below its thread pointer, the main thread's below where it was at exec. Threads
 * that the kernel runs for a process (io_uring's) have none.
 */
INLINE bool on_foreign_stack(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 sp = stack_pointer(task);
	u32 tgid = task->tgid;
	if (!sp)
		return false;
	if (task->pid != tgid)
		return thread_pointer(task) - sp > STACK_MAX;
	if (READ_ONLY(task)->mm->start_stack - sp <= STACK_MAX)
		return false;
	struct service *svc = bpf_map_lookup_elem(&processes, &tgid);
	return !(svc && svc->thread_stack && thread_pointer(task) - sp <= STACK_MAX);
}

static long stack_mapping(struct task_struct *task, struct vm_area_struct *vma, struct stack *s)
{
	s->start = vma->vm_start;
	s->end = vma->vm_end;
	return 0;
}

static long stack_guard(struct task_struct *task, struct vm_area_struct *vma, u64 *end)
{
	if (!(vma->vm_flags & VM_ACCESS))
		*end = vma->vm_end;
	return 0;
}

/* Nobody may read or write what is right below. */
INLINE bool stack_is_guarded(u64 start)
{
	u64 end = 0;
	bpf_find_vma(bpf_get_current_task_btf(), start - 1, stack_guard, &end, 0);
	return end == start;
}

/* A stack that is a mapping: how large are those of this service, if all are alike? */
INLINE void stack_sized(struct service_state *svc, const struct stack *s)
{
	u64 size = s->end - s->start;
	if (svc->sizes >= STACK_SIZES || svc->sized == s->end || size > STACK_MAX ||
	    !stack_is_guarded(s->start))
		return;
	svc->sizes = size == svc->stack_size ? svc->sizes + 1 : 1;
	svc->stack_size = size;
	svc->sized = s->end;
}

/* The stack that the current thread runs on. */
__noinline int stack_here(struct stack *s, u32 service)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct stack found = {};
	if (!s)
		return 0;
	s->end = STACK_OWN;
	if (!on_foreign_stack())
		return 0;
	u64 sp = stack_pointer(task);
	struct service_state *svc = service_of(service);
	long failed = bpf_find_vma(task, sp, stack_mapping, &found, 0);
	if (failed || !svc) {
		s->end = failed == -EBUSY ? STACK_BUSY : STACK_SHARED;
		return 0;
	}
	u64 end = found.start + svc->stack_size;
	if (svc->sizes >= STACK_SIZES && end != found.end && end > sp && end - sp < STACK_TOP &&
	    stack_is_guarded(found.start))
		found.end = end;
	else if (found.end - sp < STACK_TOP)
		stack_sized(svc, &found);
	else
		found.end = STACK_SHARED;
	*s = found;
	return 0;
}

INLINE struct worker worker_of_stack(u64 end)
{
	struct worker w = {.id = end, .kind = WORKER_STACK};
	w.tgid = bpf_get_current_task_btf()->tgid;
	return w;
}

#endif
