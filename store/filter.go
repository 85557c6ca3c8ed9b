package store

import (
	"encoding/binary"
	"math/bits"
)

// A filter is a Bloom filter (Bloom 1970) over the attributes of a block's
// spans and their resources: the hash of every attribute as it is encoded. It
// says which blocks need not be decompressed when attributes are asked for.
//
// The filters of a chunk are divided into parts. An attribute's hash determines
// its part, so that a search reads that part only: most spans have attributes that
// no other has, and filters of ten million spans are more than a hundred megabytes.
const (
	filterParts = 16
	// 16 bits for each different attribute and 8 probes answer yes in error for
	// 0.06%: a chunk has some dozen blocks, and most chunks are to be done with
	// when nothing is there.
	filterBits   = 16
	filterProbes = 8
)

func filterPart(h uint64) uint32 { return uint32(h % filterParts) }

// filterBuilder collects the hashes of a block.
type filterBuilder struct {
	parts [filterParts][]uint64 // different ones
	// A hash table of them, half empty at least; 0 is nothing.
	table []uint64
	used  int
}

// filterTable is the size of a table to begin with, for about the attributes
// that are in a block.
const filterTable = 4096

func (f *filterBuilder) reset() {
	if len(f.table) != filterTable {
		f.table = make([]uint64, filterTable)
	} else {
		clear(f.table)
	}
	f.used = 0
	for i := range f.parts {
		f.parts[i] = f.parts[i][:0]
	}
}

func (f *filterBuilder) add(h uint64) {
	if !f.insert(h) {
		return
	}
	f.parts[filterPart(h)] = append(f.parts[filterPart(h)], h)
	if f.used++; f.used > len(f.table)/2 {
		f.table = make([]uint64, 2*len(f.table))
		for _, hashes := range f.parts {
			for _, h := range hashes {
				f.insert(h)
			}
		}
	}
}

// insert reports whether the hash was not in the table, and puts it there.
func (f *filterBuilder) insert(h uint64) bool {
	mask := uint64(len(f.table) - 1)
	for i := h >> 32 & mask; ; i = (i + 1) & mask {
		switch f.table[i] {
		case 0:
			f.table[i] = h
			return true
		case h:
			return false
		}
	}
}

// appendTo appends a part of the block's filter: how many words of 64 bits it
// has, and them, little endian.
func (f *filterBuilder) appendTo(b []byte, part int) []byte {
	hashes := f.parts[part]
	words := (len(hashes)*filterBits + 63) / 64
	b = binary.AppendUvarint(b, uint64(words))
	from := len(b)
	b = append(b, make([]byte, 8*words)...)
	for _, h := range hashes {
		filter(b[from:]).add(h)
	}
	return b
}

// filter is the bits of one.
type filter []byte

// bit is the place of a probe: the hash, scaled to the number of bits.
func (f filter) bit(h uint64) uint64 {
	bit, _ := bits.Mul64(h, 8*uint64(len(f)))
	return bit
}

// nextProbe: two hashes make any number of them (Kirsch and Mitzenmacher 2006).
func nextProbe(h, step uint64) uint64 { return h + (bits.RotateLeft64(step, 32) | 1) }

func (f filter) add(h uint64) {
	p := h
	for range filterProbes {
		bit := f.bit(p)
		f[bit/8] |= 1 << (bit % 8)
		p = nextProbe(p, h)
	}
}

// has reports whether the hash may be in the filter.
func (f filter) has(h uint64) bool {
	if len(f) == 0 {
		return false
	}
	p := h
	for range filterProbes {
		bit := f.bit(p)
		if f[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
		p = nextProbe(p, h)
	}
	return true
}

// parseFilters reads one part of the filters of n blocks, without a copy.
func parseFilters(b []byte, n int) ([]filter, error) {
	d := decoder{b: b}
	if n > len(b) {
		return nil, corrupt("filters of %d blocks in %d bytes", n, len(b))
	}
	filters := make([]filter, n)
	for i := range filters {
		filters[i] = d.take(8 * uint64(d.count(8)))
	}
	return filters, d.done("filters")
}
