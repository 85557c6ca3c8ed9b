package store

import (
	"math/bits"
)

// A filter is a Bloom filter (Bloom 1970) over the attributes of a block's
// spans and their resources: the hash of every attribute as it is encoded. Its
// size is a power of two, so that a filter that turned out too large is folded
// to half without hashing again. It says which blocks need not be decompressed
// when attributes are asked for.
const (
	filterMaxBits = 17 // log2; 16 KiB while it is built
	filterMinBits = 6
	filterProbes  = 5
	// Folded as long as at most this share of the bits would be set: with 5
	// probes a share of 0.4 answers yes in error for 1%.
	filterFill = 0.4
)

type filterBuilder struct {
	words []uint64
}

func (f *filterBuilder) reset() {
	if f.words == nil {
		f.words = make([]uint64, 1<<filterMaxBits/64)
		return
	}
	clear(f.words)
}

func (f *filterBuilder) add(h uint64) {
	// Kirsch and Mitzenmacher: two hashes make any number of them.
	step := h>>32 | 1
	for range filterProbes {
		bit := h & (1<<filterMaxBits - 1)
		f.words[bit/64] |= 1 << (bit % 64)
		h += step
	}
}

// appendTo folds the filter and appends log2 of its bits, and them.
func (f *filterBuilder) appendTo(b []byte) []byte {
	log := filterMaxBits
	words := f.words
	for log > filterMinBits {
		half := len(words) / 2
		set := 0
		for i := range half {
			set += bits.OnesCount64(words[i] | words[i+half])
		}
		if float64(set) > filterFill*float64(half*64) {
			break
		}
		for i := range half {
			words[i] |= words[i+half]
		}
		words = words[:half]
		log--
	}
	b = append(b, byte(log))
	for _, w := range words {
		for i := range 8 {
			b = append(b, byte(w>>(8*i)))
		}
	}
	return b
}

// filter is one as it stands on disk, little endian bits.
type filter struct {
	mask uint64
	b    []byte
}

// has reports whether the hash may be in the filter.
func (f filter) has(h uint64) bool {
	step := h>>32 | 1
	for range filterProbes {
		bit := h & f.mask
		if f.b[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
		h += step
	}
	return true
}

// parseFilters reads the filters of n blocks, without a copy.
func parseFilters(b []byte, n int) ([]filter, error) {
	d := decoder{b: b}
	if n > len(b) {
		return nil, corrupt("filters of %d blocks in %d bytes", n, len(b))
	}
	filters := make([]filter, n)
	for i := range filters {
		log := d.take(1)
		if log == nil || log[0] < filterMinBits || log[0] > filterMaxBits {
			return nil, corrupt("filter of block %d", i)
		}
		filters[i] = filter{1<<log[0] - 1, d.take(1 << log[0] / 8)}
	}
	return filters, d.done("filters")
}
