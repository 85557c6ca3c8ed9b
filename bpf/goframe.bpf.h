/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a word on a goroutine's stack counts. A stack is not cleared when it grows or changes
 * hands: what a function has not written yet may be another request's. Go's collector and the copying
 * of stacks have the same question, so the compiler answers it for each call: of what a function keeps
 * in its frame, which words hold pointers that are needed after the call (runtime/stkframe.go,
 * getStackMap). These maps are found as the runtime finds them, by the return addresses in the frames.
 */
#ifndef TARE_GOFRAME_H
#define TARE_GOFRAME_H

#define GO_ASKS_PAUSE 5000000	/* ns, after which a process's tables may be asked for again */
#define GO_FRAMES     128	/* of a stack that are walked */
#define GO_FUNCTIONS  24	/* steps of a search among 2^24 */
#define GO_VALUES     2048	/* bytes of a table that are read */
#define GO_FEW	      (1 << 16) /* tables of a function, and words of its frame */

/* In the description of a function, the same in Go 1.20 to 1.27. */
#define GO_RECORD_TABLES 28 /* how many tables: 4 bytes */
#define GO_RECORD_MAPS	 43 /* how many maps and the like: 1 byte */
#define GO_RECORD	 44 /* the tables, the maps: 4 bytes each */
#define GO_TABLE	 1  /* of the tables: which entry of the maps holds */
#define GO_TABLE_WRITTEN 3  /* and which of GO_WRITTEN */
#define GO_ARGUMENTS	 0  /* of the maps: pointers among the arguments that are needed */
#define GO_VARIABLES	 1  /* and among the variables */
#define GO_NAMED	 5  /* what tracebacks print: offset and size of each argument, and marks */
#define GO_WRITTEN	 6  /* which of these are in their places by then */
#define GO_MARKS	 0xfb /* and above: an aggregate begins, ends, or something is left out */
#define GO_ENDS_HERE(x)	 ((x) == 0xff || (x) == 0xfc || (x) == 0xfb)

#if defined(__TARGET_ARCH_x86)
#define GO_QUANTUM 1 /* bytes of the smallest instruction */
#else
#define GO_QUANTUM 4
#endif

/* The frame pointer of a thread in a system call. */
INLINE u64 go_frame_pointer(void)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
#if defined(__TARGET_ARCH_x86)
	return regs->bp;
#else
	return regs->regs[29];
#endif
}

/*
 * To the frame of who has called. Frame pointers lead from one to the next, with the return address
 * behind each. On amd64 it points to the end of its function's variables, on arm64 to that of those
 * of the function that was called.
 */
static long go_walk_frames(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	u64 words[2];
	if (!s)
		return 1;
	struct go_frame *f = &s->frame;
	if (f->at < f->end)
		return 1;
	if (bpf_probe_read_user(words, sizeof(words), (void *)f->end) || words[0] <= f->end ||
	    words[0] >= s->goroutine.high) {
		f->end = 0;
		return 1;
	}
	f->arguments = f->end + sizeof(words);
	f->end = words[0];
	f->called = f->returns;
#if defined(__TARGET_ARCH_x86)
	f->returns = words[1];
#else
	f->returns = f->next;
	f->next = words[1];
#endif
	return 0;
}

/* Where in the table of functions the one begins that an address is in: the last not above it. */
static long go_find_function(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	u32 begins = 0;
	if (!p)
		return 1;
	struct go_frame *f = &s->frame;
	if (f->low >= f->high)
		return 1;
	u32 middle = (f->low + f->high) / 2;
	if (bpf_probe_read_user(&begins, sizeof(begins), (void *)(p->functions + 8 * (u64)middle)))
		return 1;
	if (begins <= f->target)
		f->low = middle + 1;
	else
		f->high = middle;
	return 0;
}

/*
 * Reads the next byte of a table: pairs of by how much a value changes, and for how many bytes of code
 * it holds then.
 */
static long go_find_value(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s)
		return 1;
	struct go_frame *f = &s->frame;
	u64 at = i % GO_PIECE;
	if (!at && bpf_probe_read_user(f->piece, sizeof(f->piece), (void *)(f->table + i)))
		return 1;
	u8 byte = f->piece[at];
	if (f->shift > 28)
		return 1;
	f->number |= (u32)(byte & 0x7f) << f->shift;
	f->shift += 7;
	if (byte & 0x80)
		return 0;
	u32 n = f->number;
	f->number = f->shift = 0;
	f->of_code = !f->of_code;
	if (f->of_code) {
		f->value += (n >> 1) ^ -(n & 1);
		return !n && i; /* the end */
	}
	f->low += n * GO_QUANTUM;
	f->found = f->target < f->low;
	return f->target < f->low;
}

/* Finds the function that an address is in. */
INLINE bool go_find(struct go_frame *f, const struct go_program *p, u64 pc)
{
	f->target = pc - p->text;
	f->low = 0;
	f->high = p->nfunc;
	if (pc < p->text || pc - p->text > ~0U)
		return false;
	bpf_loop(GO_FUNCTIONS, go_find_function, 0, 0);
	if (!f->low || f->low < f->high ||
	    bpf_probe_read_user(f->entry, sizeof(f->entry),
				(void *)(p->functions + 8 * (u64)(f->low - 1))))
		return false;
	f->begins = f->entry[0];
	f->record = p->functions + f->entry[1];
	return !bpf_probe_read_user(&f->tables, sizeof(f->tables),
				    (void *)(f->record + GO_RECORD_TABLES)) &&
	       !bpf_probe_read_user(&f->maps, sizeof(f->maps),
				    (void *)(f->record + GO_RECORD_MAPS)) &&
	       f->tables <= GO_FEW;
}

/* Reads a 4-byte number; what is read is in the scratch, for the stack is short. */
INLINE bool go_half(struct go_frame *f, u64 address)
{
	return !bpf_probe_read_user(&f->half, sizeof(f->half), (void *)address);
}

/* What one of a function's tables says at the address that was sought. False: nothing. */
INLINE bool go_value_of(struct go_frame *f, const struct go_program *p, u32 table)
{
	if (f->tables <= table || !go_half(f, f->record + GO_RECORD + 4 * table) || !f->half)
		return false;
	f->table = p->pctab + f->half;
	f->value = ~0U;
	f->low = f->begins;
	f->number = f->shift = f->of_code = f->found = 0;
	bpf_loop(GO_VALUES, go_find_value, 0, 0);
	return f->found;
}

/* Notes where one of a function's maps is; 0: it has none. False: that cannot be read. */
INLINE bool go_map_of(struct go_frame *f, const struct go_program *p, u32 map)
{
	f->map = 0;
	if (map >= f->maps)
		return true;
	if (!go_half(f, f->record + GO_RECORD + 4 * (f->tables + map)))
		return false;
	f->map = f->half == ~0U ? 0 : p->gofunc + f->half;
	return true;
}

/* Counts the arguments before the one that is sought. */
static long go_count_argument(u64 i, void *unused)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s)
		return 1;
	struct go_frame *f = &s->frame;
	u8 byte = f->piece[i % GO_PIECE];
	if (f->shift) { /* it is a size */
		f->shift = 0;
		return f->found ? 1 : 0;
	}
	if (GO_ENDS_HERE(byte))
		return 1;
	if (byte >= GO_MARKS)
		return 0;
	f->found = byte == f->value;
	f->number += byte >= f->low && !f->found;
	f->shift = 1;
	return 0;
}

/*
 * Arguments come in registers, and have places on the stack where the function may keep them. Is the
 * interface that ends with this word an argument, and written to its place? Then it is there for as
 * long as the function runs, whether it needs it or not (runtime/traceback.go, printArgs).
 */
INLINE u8 go_written(struct go_frame *f, const struct go_program *p, u32 distance)
{
	s32 entry = go_value_of(f, p, GO_TABLE_WRITTEN) ? f->value : 0;
	if (!go_map_of(f, p, GO_NAMED))
		return GO_ASKED;
	if (!f->map)
		return GO_UNUSED;
	if (bpf_probe_read_user(f->piece, sizeof(f->piece), (void *)f->map) ||
	    !go_map_of(f, p, GO_WRITTEN))
		return GO_ASKED;
	f->half = 0; /* the first of those that come in registers */
	if (f->map && bpf_probe_read_user(&f->half, 1, (void *)f->map))
		return GO_ASKED;
	f->low = f->half;
	f->value = distance - 8;
	f->number = f->shift = f->found = 0;
	bpf_loop(GO_PIECE, go_count_argument, 0, 0);
	if (!f->found || f->number >= 16)
		return GO_UNUSED;
	if (!f->map || entry <= 0 || f->value < f->low)
		return GO_USED;
	f->half = 0;
	if (bpf_probe_read_user(&f->half, 3, (void *)(f->map + (u32)entry)))
		return GO_ASKED;
	return (f->half >> f->number & 3) == 3;
}

/* Does a map of pointers that are needed have a word? */
INLINE u8 go_needed(struct go_frame *f, const struct go_program *p, s32 distance)
{
	if (!go_value_of(f, p, GO_TABLE) ||
	    !go_map_of(f, p, distance < 0 ? GO_VARIABLES : GO_ARGUMENTS))
		return GO_ASKED;
	if (!f->map)
		return GO_UNUSED;
	if (!go_half(f, f->map))
		return GO_ASKED;
	if (f->value >= f->half)
		return GO_UNUSED;
	if (!go_half(f, f->map + 4))
		return GO_ASKED;
	u32 words = f->half, word = (distance >> 3) + (distance < 0 ? words : 0);
	if (words > GO_FEW || word >= words)
		return GO_UNUSED;
	f->half = 0;
	if (bpf_probe_read_user(
		&f->half, 1, (void *)(f->map + 8 + f->value * (u64)((words + 7) / 8) + word / 8)))
		return GO_ASKED;
	return f->half >> (word % 8) & 1;
}

/* What a function's maps say of a word; GO_ASKED: they cannot be read. */
INLINE u8 go_use_of(struct go_frame *f, const struct go_program *p, u64 returns, s32 distance)
{
	if (!go_find(f, p, returns - 1))
		return GO_ASKED;
	u8 use = go_needed(f, p, distance);
	return use == GO_UNUSED && distance >= 8 ? go_written(f, p, distance) : use;
}

/*
 * Is the pointer in use at this distance from where a function's arguments begin, or, below zero,
 * from where its variables end? What the process has not yet looked at itself is not in its memory:
 * then the agent is asked to look, once for each word.
 */
__noinline int go_in_use(u64 returns, s32 distance)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	struct go_program *p = s ? bpf_map_lookup_elem(&go_programs, &s->tgid) : 0;
	if (!p || !returns)
		return false;
	struct go_word_key *k = &s->frame.word;
	k->returns = returns;
	k->tgid = s->tgid;
	k->distance = distance;
	u8 *known = bpf_map_lookup_elem(&go_words, k);
	if (known && *known != GO_ASKED)
		return *known;
	struct go_frame *f = &s->frame;
	f->use = go_use_of(f, p, returns, distance);
	if (f->use == GO_ASKED) {
		u64 now = bpf_ktime_get_ns();
		if (known || now - p->asked_at < GO_ASKS_PAUSE)
			return false;
		p->asked_at = now;
		struct control_record *r = &s->frame.asks;
		r->type = TARE_UNREAD;
		r->tgid = s->tgid;
		r->reason = returns - p->text;
		control_tell(r);
	}
	bpf_map_update_elem(&go_words, k, &f->use, BPF_ANY);
	return f->use == GO_USED;
}

/* Finds the frame that an address of the stack is in. */
__noinline int go_to_frame(u64 at)
{
	struct go_scratch *s = go_scratch_of(HOOK_SENDS);
	if (!s)
		return false;
	struct go_frame *f = &s->frame;
	f->at = at;
	f->end = go_frame_pointer();
	f->returns = f->called = f->next = 0;
	f->arguments = ~0ULL;
	if (f->end < s->goroutine.sp || f->end & 7)
		return false;
	bpf_loop(GO_FRAMES, go_walk_frames, 0, 0);
	return at < f->end && at >= f->arguments;
}

/* Is the pointer at this address of the stack in use, by a function that it is in? */
INLINE bool go_live(struct go_frame *f, u64 at)
{
	return go_to_frame(at) &&
	       (go_in_use(f->returns, at - f->end) || go_in_use(f->called, at - f->arguments));
}

#endif
