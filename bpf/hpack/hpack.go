// Package hpack makes the tables by which the kernel side reads headers of HTTP/2
// (RFC 7541), from those of an ordinary implementation.
package hpack

import (
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-trace/tare/bpf"
)

// Fixed is the number behind the last field of the static table.
const Fixed = 62

// FixedName is the name that a field of the static table has; they count from 1.
func FixedName(i int) string {
	fields, err := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
	if err != nil || len(fields) != 1 {
		panic("hpack: the static table has no such field")
	}
	return fields[0].Name
}

// Tables are those of bpf/hpack.h.
func Tables() (t bpf.TareHpackTables) {
	for i := 1; i < Fixed; i++ {
		t.NameLen[i] = uint8(len(FixedName(i)))
	}
	nodes := tree()
	for n := range nodes {
		for four := range 16 {
			t.Huffman[n<<4|four] = step(nodes, n, four)
		}
	}
	return t
}

// What bits of Huffman's code lead to, as in bpf/hpack.h.
const (
	emits = 0x10000
	fails = 0x20000
	ends  = 0x40000
)

// node is one of the tree that is no symbol: what the two bits lead to.
type node struct {
	to    [2]int // a node, or the complement of a symbol; 0: not a code
	stops bool   // padding of less than a byte, all ones, may lead here
}

// tree is that of the code; its first node is the root.
func tree() []node {
	nodes := []node{{stops: true}}
	add := func(code string, symbol int) {
		at := 0
		for i, bit := range []byte(code) {
			next := &nodes[at].to[bit-'0']
			switch {
			case i == len(code)-1:
				*next = ^symbol
			case *next == 0:
				*next = len(nodes)
				at = len(nodes)
				nodes = append(nodes, node{stops: i < 7 && strings.Trim(code[:i+1], "1") == ""})
			default:
				at = *next
			}
		}
	}
	for symbol := range 256 {
		add(code(byte(symbol)), symbol)
	}
	return nodes
}

// code is a symbol's, in zeroes and ones: eight times it takes as many bytes as the code has bits.
func code(symbol byte) string {
	eight := hpack.AppendHuffmanString(nil, strings.Repeat(string([]byte{symbol}), 8))
	bits := make([]byte, len(eight))
	for i := range bits {
		bits[i] = '0' + eight[i/8]>>(7-i%8)&1
	}
	return string(bits)
}

// step goes four bits on from a node. No code is so short that two end.
func step(nodes []node, at, four int) (entry uint32) {
	for bit := 3; bit >= 0; bit-- {
		next := nodes[at].to[four>>bit&1]
		switch {
		case next == 0:
			return fails
		case next < 0:
			entry = emits | uint32(^next)<<8
			at = 0
		default:
			at = next
		}
	}
	if nodes[at].stops {
		entry |= ends
	}
	return entry | uint32(at)
}
