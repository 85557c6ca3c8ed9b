package store

import (
	"encoding/binary"
	"math/bits"
)

// Columns of a chunk: one number per span, per trace or per call.
const (
	// Per span, sorted by trace.
	colOperation = iota // index into names.operations
	colStart            // from zone.minStart, ns
	colDuration         // ns
	colFlags            // flagError, flagRoot
	// Per trace.
	colTraceID // 16 bytes each
	colFirst   // its first span
	colFrom    // its first start, from zone.minStart, ns
	colLength  // from there to its last end, ns
	colTop     // its top span, from its first
	colVerdict // index into names.verdicts
	colWeight  // index into names.weights
	colBlock   // where its spans' bytes are
	colOffset
	colBytes
	// Per call.
	colEdge     // index into names.edges
	colEdgeSpan // the span that measures it

	columns
)

const (
	flagError = 1 << iota
	flagRoot
)

// column is n numbers of w bytes each, little endian. w is 0 (all zero), 1, 2,
// 4 or 8: what the largest needs.
type column struct {
	w int
	b []byte
}

// widthOf returns the bytes that numbers up to top take.
func widthOf(top uint64) int {
	switch n := (bits.Len64(top) + 7) / 8; {
	case n <= 2:
		return n
	case n <= 4:
		return 4
	default:
		return 8
	}
}

// newColumn returns a column of n zeros that takes numbers up to top.
func newColumn(n int, top uint64) column {
	w := widthOf(top)
	return column{w, make([]byte, n*w)}
}

// parseColumn reads a column of n numbers, without a copy.
func parseColumn(b []byte, n int) (column, error) {
	if len(b) == 0 {
		return column{}, nil
	}
	w := 0
	if n > 0 {
		w = len(b) / n
	}
	if w*n != len(b) || w != 1 && w != 2 && w != 4 && w != 8 {
		return column{}, corrupt("a column of %d numbers has %d bytes", n, len(b))
	}
	return column{w, b}, nil
}

func (c column) at(i int) uint64 {
	switch c.w {
	case 0:
		return 0
	case 1:
		return uint64(c.b[i])
	case 2:
		return uint64(binary.LittleEndian.Uint16(c.b[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(c.b[4*i:]))
	default:
		return binary.LittleEndian.Uint64(c.b[8*i:])
	}
}

func (c column) set(i int, v uint64) {
	switch c.w {
	case 0:
	case 1:
		c.b[i] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(c.b[2*i:], uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(c.b[4*i:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(c.b[8*i:], v)
	}
}

// within appends to at the indices below n whose number is one of the wanted:
// want[v] tells. A number beyond want is not wanted.
func (c column) within(n int, want []bool, at []int32) []int32 {
	switch c.w {
	case 0:
		if len(want) > 0 && want[0] {
			for i := range n {
				at = append(at, int32(i))
			}
		}
	case 1:
		var table [256]bool
		copy(table[:], want)
		for i, v := range c.b {
			if table[v] {
				at = append(at, int32(i))
			}
		}
	default:
		for i := range n {
			if v := c.at(i); v < uint64(len(want)) && want[v] {
				at = append(at, int32(i))
			}
		}
	}
	return at
}
