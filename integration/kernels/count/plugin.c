/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of QEMU's software emulation (API version 1, QEMU 4.2 to 8.2): counts how often each block of instructions runs
 * between two marks, and writes "address instructions runs" of those that ran to the file out=FILE.
 *
 * A mark is the run of a block at MARKS, which begins, or at MARKS + 64, which ends: load.c. Counting runs inline, without
 * a call, so that the guest keeps most of its speed.
 *
 * Debian packages no header of this API, so what is used of it is declared here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARKS 0x7000000000ull

#define EXPORTED __attribute__((visibility("default")))

struct qemu_plugin_tb;

enum { CB_NO_REGS = 0, INLINE_ADD_U64 = 0 };

EXPORTED int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(uint64_t id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*cb)(unsigned cpu, void *),
					  int flags, void *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *counter,
					      uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

/* Blocks that were translated. Translated again, a block keeps its counter. */
struct block {
	uint64_t address, instructions;
	uint64_t runs, before; /* all, and those before the first mark */
	struct block *next;
};

#define BUCKETS (1 << 18)

static struct block *blocks[BUCKETS];
static const char *out;

static struct block *block_of(uint64_t address, uint64_t instructions)
{
	uint64_t hash = (address * 0x9e3779b97f4a7c15ull + instructions * 0x85ebca6b) >> 46;
	struct block **bucket = &blocks[hash & (BUCKETS - 1)], *b;
	for (b = *bucket; b; b = b->next)
		if (b->address == address && b->instructions == instructions)
			return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		abort();
	b->address = address;
	b->instructions = instructions;
	b->next = *bucket;
	*bucket = b;
	return b;
}

static void begins(unsigned cpu, void *unused)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct block *b = blocks[i]; b; b = b->next)
			b->before = b->runs;
}

static void ends(unsigned cpu, void *unused)
{
	FILE *f = out ? fopen(out, "w") : NULL;
	if (!f)
		return; /* who reads it finds nothing */
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct block *b = blocks[i]; b; b = b->next)
			if (b->runs != b->before)
				fprintf(f, "%llx %llu %llu\n", (unsigned long long)b->address,
					(unsigned long long)b->instructions,
					(unsigned long long)(b->runs - b->before));
	fclose(f);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct block *b = block_of(address, qemu_plugin_tb_n_insns(tb));
	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &b->runs, 1);
	if (address == MARKS)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, begins, CB_NO_REGS, NULL);
	if (address == MARKS + 64)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, ends, CB_NO_REGS, NULL);
}

EXPORTED int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
