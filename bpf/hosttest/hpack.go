//go:build cgo

package hosttest

/*
#include <linux/types.h>
#include "hpack.h"

struct hpack_all {
	struct hpack_table table;
	struct hpack_reader reader;
	struct hpack_tables tables;
	__u8 text[HPACK_TEXT];
};

static unsigned hpack_byte_(void *r, const void *t, void *text, unsigned char b) { return hpack_byte(r, t, text, b); }
static int hpack_skips_(const void *r) { return hpack_skips(r); }
static unsigned hpack_skip_(void *r, unsigned n) { return hpack_skip(r, n); }
static int hpack_resize_(void *t, unsigned size) { return hpack_resize(t, size); }
static void hpack_add_(void *t, const void *r, __u64 value) { hpack_add(t, r, value); }
static const void *hpack_find_(const void *t, unsigned number) { return hpack_find(t, number); }
static unsigned hpack_status_class_(const void *p) { return hpack_status_class(p); }
*/
import "C"

import (
	"unsafe"

	"github.com/tare-trace/tare/bpf/hpack"
)

// HPACK reads blocks of headers, one after the other, as bpf/hpack.bpf.h does.
type HPACK struct {
	names  []string // whose values count
	c      *C.struct_hpack_all
	values []string // by what the table has of them, from 1 on
}

// HPACKText is how many bytes of a value are kept.
const HPACKText = C.HPACK_TEXT

// NewHPACK looks for values of headers.
func NewHPACK(names ...string) *HPACK {
	h := &HPACK{names: names, c: new(C.struct_hpack_all)}
	t := hpack.Tables()
	for i, step := range t.Huffman {
		h.c.tables.huffman[i] = C.__u32(step)
	}
	for i, n := range t.NameLen {
		h.c.tables.name_len[i] = C.__u8(n)
	}
	h.c.table.size = C.HPACK_TABLE
	return h
}

// Read takes a piece of a block, and returns values in it, each behind its name; false if it cannot
// be read.
func (h *HPACK) Read(piece []byte) (found []string, ok bool) {
	for len(piece) > 0 {
		n, event := 1, C.uint(0)
		if C.hpack_skips_(unsafe.Pointer(&h.c.reader)) != 0 {
			n = min(len(piece), int(h.c.reader.left))
			event = C.hpack_skip_(unsafe.Pointer(&h.c.reader), C.uint(n))
		} else {
			event = C.hpack_byte_(unsafe.Pointer(&h.c.reader), unsafe.Pointer(&h.c.tables), unsafe.Pointer(&h.c.text), C.uchar(piece[0]))
		}
		piece = piece[n:]
		value, ok := h.take(event)
		if !ok {
			return found, false
		}
		if value > 0 {
			found = append(found, h.values[value-1])
		}
	}
	return found, true
}

// Whole reports whether a block may end here.
func (h *HPACK) Whole() bool { return h.c.reader.next == C.HPACK_AT_FIELD }

// kept is what is kept of a string in the text.
func (h *HPACK) kept(n C.__u32) string {
	return C.GoStringN((*C.char)(unsafe.Pointer(&h.c.text)), C.int(min(n, C.HPACK_TEXT)))
}

func (h *HPACK) take(event C.uint) (value C.__u64, ok bool) {
	r := &h.c.reader
	switch event {
	case C.HPACK_NOTHING:
		return 0, true
	case C.HPACK_NAME:
		r.name, r.name_len = 0, r.len
		for i, name := range h.names {
			if int(r.len) == len(name) && h.kept(r.len) == name {
				r.name = C.__u8(i + 1)
			}
		}
		return 0, true
	case C.HPACK_VALUE:
		if r.name > 0 {
			h.values = append(h.values, h.names[r.name-1]+": "+h.kept(r.len))
			value = C.__u64(len(h.values))
		}
		if r.kind == C.HPACK_KIND_ADDED {
			C.hpack_add_(unsafe.Pointer(&h.c.table), unsafe.Pointer(r), value)
		}
		return value, true
	case C.HPACK_SIZE:
		return 0, C.hpack_resize_(unsafe.Pointer(&h.c.table), r.number) != 0
	case C.HPACK_INDEXED, C.HPACK_NAMED:
		if r.number > 0 && r.number <= C.HPACK_FIXED {
			r.name, r.name_len = 0, C.__u32(h.c.tables.name_len[r.number])
			return 0, true
		}
		e := (*C.struct_hpack_entry)(C.hpack_find_(unsafe.Pointer(&h.c.table), r.number))
		if e == nil {
			return 0, false
		}
		r.name, r.name_len = e.name, C.__u32(e.name_len)
		if event == C.HPACK_INDEXED {
			value = e.value
		}
		return value, true
	}
	return 0, false
}

// StatusClass is the first digit of the status that a response's block of headers begins with, 0 if that is not
// known.
func StatusClass(block []byte) uint {
	var p [3]byte
	copy(p[:], block)
	return uint(C.hpack_status_class_(unsafe.Pointer(&p)))
}
