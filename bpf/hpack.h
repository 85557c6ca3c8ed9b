/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * HPACK (RFC 7541), as far as it takes to know which values some headers have: a block of headers is
 * read byte by byte, however it is cut, and of the dynamic table it is remembered which of its fields
 * count, with a hash of the value. Pure functions, compiled into the kernel programs and, for its
 * tests, into an ordinary library.
 *
 * Lengths are of decoded strings, so that Huffman's code is decoded even where the string is not
 * wanted, if it gets into the table.
 */
#ifndef TARE_HPACK_H
#define TARE_HPACK_H

#define HPACK_INLINE static inline __attribute__((always_inline))

#define HPACK_TABLE   4096 /* octets of a dynamic table, at most; without further agreement */
#define HPACK_ENTRY   32   /* octets of an entry beside its strings */
#define HPACK_ENTRIES (HPACK_TABLE / HPACK_ENTRY)
#define HPACK_FIXED   61  /* fields of the static table */
#define HPACK_TEXT    256 /* bytes of a string that are kept */
#define HPACK_NODES   256 /* of the tree of Huffman's code that are no symbols */

/* What four bits of Huffman's code lead to, from a node; below: the next node. */
#define HUFFMAN_SYMBOL(e) ((e) >> 8 & 0xff)
#define HUFFMAN_EMITS	  0x10000 /* a symbol ends */
#define HUFFMAN_FAILS	  0x20000 /* no code */
#define HUFFMAN_ENDS	  0x40000 /* a string may end here */

/* By the agent. */
struct hpack_tables {
	__u32 huffman[HPACK_NODES * 16];
	__u8 name_len[HPACK_FIXED + 3]; /* of fields of the static table */
};

/* A field of the dynamic table. */
struct hpack_entry {
	__u64 value;  /* hash; 0: none that counts */
	__u32 begins; /* octets that were added before */
	__u16 name_len;
	__u8 name; /* number of the header + 1; 0: it does not count */
	__u8 pad;
};

/*
 * Entries are evicted in their order, as many as it takes for the others to have room: so an entry is
 * there unless it begins before a place that only moves on.
 */
struct hpack_table {
	struct hpack_entry at[HPACK_ENTRIES];
	__u32 n;     /* entries, ever */
	__u32 added; /* octets of them, ever */
	__u32 gone;  /* what begins before is evicted */
	__u32 size;  /* octets that have room */
};

enum hpack_next {
	HPACK_AT_FIELD = 0,
	HPACK_AT_LENGTH, /* of a string */
	HPACK_AT_NUMBER, /* which goes on */
	HPACK_AT_TEXT,
};

enum hpack_kind {
	HPACK_KIND_INDEXED,
	HPACK_KIND_ADDED, /* to the table */
	HPACK_KIND_ALONE,
	HPACK_KIND_SIZE,
};

/* Where in a block. */
struct hpack_reader {
	__u32 number; /* an index, a length or a size */
	__u32 left;   /* bytes of the string that are to come */
	__u32 len;    /* octets of it so far, decoded */
	__u32 name_len;
	__u8 next;  /* enum hpack_next */
	__u8 kind;  /* enum hpack_kind */
	__u8 shift; /* of a number that goes on */
	__u8 string;
	__u8 value; /* the string is a value */
	__u8 huffman;
	__u8 node;
	__u8 name; /* as of an entry */
};

enum hpack_event {
	HPACK_NOTHING = 0,
	HPACK_INDEXED, /* a field by its number */
	HPACK_NAMED,   /* a name by its number: a value follows */
	HPACK_NAME,    /* a name ends: it is in the text */
	HPACK_VALUE,   /* a value ends, and the field */
	HPACK_SIZE,    /* of the table */
	HPACK_BAD,
};

/* What is read of the string is neither compared nor counted. */
HPACK_INLINE int hpack_skips(const struct hpack_reader *r)
{
	return r->next == HPACK_AT_TEXT && r->value && !r->name &&
	       (!r->huffman || r->kind != HPACK_KIND_ADDED);
}

HPACK_INLINE enum hpack_event hpack_string_ends(struct hpack_reader *r)
{
	if (r->value) {
		r->next = HPACK_AT_FIELD;
		return HPACK_VALUE;
	}
	r->value = 1;
	r->next = HPACK_AT_LENGTH;
	return HPACK_NAME;
}

/* So many bytes of a string were skipped, no more than there are. */
HPACK_INLINE enum hpack_event hpack_skip(struct hpack_reader *r, __u32 n)
{
	r->len += n;
	r->left -= n;
	return r->left ? HPACK_NOTHING : hpack_string_ends(r);
}

/* A sum, and no union of bits, of which Linux 6.1 knows no bound. */
HPACK_INLINE __u64 hpack_step_of(__u64 node, __u64 four)
{
	node <<= 4;
	asm volatile("" : "+r"(node));
	return node + four;
}

HPACK_INLINE void hpack_put(struct hpack_reader *r, __u8 *text, __u8 byte)
{
	if (r->len < HPACK_TEXT)
		text[r->len & (HPACK_TEXT - 1)] = byte;
	r->len++;
}

/* Takes a byte of a string. */
HPACK_INLINE enum hpack_event hpack_text(struct hpack_reader *r, const struct hpack_tables *t,
					 __u8 *text, __u8 byte)
{
	__u32 left = --r->left;
	if (r->huffman) {
		__u32 high = t->huffman[hpack_step_of(r->node, byte >> 4)];
		__u32 low = t->huffman[hpack_step_of(high & 0xff, byte & 15)];
		if (high & HUFFMAN_EMITS)
			hpack_put(r, text, HUFFMAN_SYMBOL(high));
		if (low & HUFFMAN_EMITS)
			hpack_put(r, text, HUFFMAN_SYMBOL(low));
		r->node = low;
		if ((high | low) & HUFFMAN_FAILS || (!left && !(low & HUFFMAN_ENDS)))
			return HPACK_BAD;
	} else {
		hpack_put(r, text, byte);
	}
	return left ? HPACK_NOTHING : hpack_string_ends(r);
}

/* Takes a byte of what begins a field or a string: bits that say what it is, and a number (5.1). */
HPACK_INLINE enum hpack_event hpack_number(struct hpack_reader *r, __u8 byte)
{
	if (r->next == HPACK_AT_NUMBER) {
		if (r->shift > 21)
			return HPACK_BAD;
		r->number += (__u32)(byte & 0x7f) << (r->shift & 31);
		r->shift += 7;
		if (byte & 0x80)
			return HPACK_NOTHING;
	} else {
		__u8 mask = 0x7f;
		r->string = r->next == HPACK_AT_LENGTH;
		if (r->string) {
			r->huffman = byte >> 7;
		} else {
			r->name = r->value = 0;
			r->kind = HPACK_KIND_INDEXED;
			if (!(byte & 0x80)) {
				__u8 added = byte & 0x40, size = byte & 0x20;
				r->kind = added	 ? HPACK_KIND_ADDED
					  : size ? HPACK_KIND_SIZE
						 : HPACK_KIND_ALONE;
				mask = added ? 0x3f : size ? 0x1f : 0x0f;
			}
		}
		r->number = byte & mask;
		r->shift = 0;
		if (r->number == mask) {
			r->next = HPACK_AT_NUMBER;
			return HPACK_NOTHING;
		}
	}
	if (r->string) {
		r->left = r->number;
		r->len = r->node = 0;
		r->next = HPACK_AT_TEXT;
		return r->left ? HPACK_NOTHING : hpack_string_ends(r);
	}
	r->next = HPACK_AT_FIELD;
	if (r->kind == HPACK_KIND_INDEXED)
		return HPACK_INDEXED;
	if (r->kind == HPACK_KIND_SIZE)
		return HPACK_SIZE;
	r->next = HPACK_AT_LENGTH;
	r->value = r->number != 0;
	return r->value ? HPACK_NAMED : HPACK_NOTHING;
}

/* Takes a byte of a block. */
HPACK_INLINE enum hpack_event hpack_byte(struct hpack_reader *r, const struct hpack_tables *t,
					 __u8 *text, __u8 byte)
{
	return r->next == HPACK_AT_TEXT ? hpack_text(r, t, text, byte) : hpack_number(r, byte);
}

/* ---- the dynamic table ---- */

HPACK_INLINE void hpack_evict(struct hpack_table *t)
{
	__u32 first = t->added - t->size;
	if ((__s32)(first - t->gone) > 0)
		t->gone = first;
}

/* A size update; false: more than is kept. */
HPACK_INLINE int hpack_resize(struct hpack_table *t, __u32 size)
{
	if (size > HPACK_TABLE)
		return 0;
	t->size = size;
	hpack_evict(t);
	return 1;
}

HPACK_INLINE void hpack_add(struct hpack_table *t, const struct hpack_reader *r, __u64 value)
{
	__u32 size = r->name_len + r->len + HPACK_ENTRY;
	if (size > t->size) { /* it empties the table, and is not added */
		t->gone = t->added;
		return;
	}
	struct hpack_entry *e = &t->at[t->n & (HPACK_ENTRIES - 1)];
	e->value = value;
	e->begins = t->added;
	e->name_len = r->name_len;
	e->name = r->name;
	t->n++;
	t->added += size;
	hpack_evict(t);
}

/* The field of the dynamic table with that number; 0: there is none. */
HPACK_INLINE const struct hpack_entry *hpack_find(const struct hpack_table *t, __u32 number)
{
	__u32 back = number - HPACK_FIXED; /* 1: the newest */
	if (number <= HPACK_FIXED || back > HPACK_ENTRIES || back > t->n)
		return 0;
	const struct hpack_entry *e = &t->at[(t->n - back) & (HPACK_ENTRIES - 1)];
	return (__s32)(e->begins - t->gone) < 0 ? 0 : e;
}

/* ---- responses, whose table is not followed ---- */

/*
 * The first digit of :status, with which a response's block of headers begins, of which three bytes
 * are there; 0: not known.
 */
HPACK_INLINE unsigned hpack_status_class(const __u8 *p)
{
	static const __u8 fixed[8] = {2, 2, 2, 3, 4, 4, 5, 0}; /* 200 204 206 304 400 404 500 */
	__u8 literal = p[0] & 0x40 ? p[0] & 0x3f : p[0] & 0x0f;
	if (p[0] >= 0x88 && p[0] <= 0x8e)
		return fixed[p[0] & 7];
	if (p[0] & 0xa0 || literal < 8 || literal > 14)
		return 0;
	if (p[1] == 3)
		return p[2] >= '1' && p[2] <= '5' ? p[2] - '0' : 0;
	if (!(p[1] & 0x80))
		return 0;
	__u8 five = p[2] >> 3, six = p[2] >> 2; /* Huffman's codes of 0 to 2, and of 3 to 9 */
	if (five == 1 || five == 2)
		return five;
	return six >= 0x19 && six <= 0x1b ? six - 0x16 : 0;
}

#endif
