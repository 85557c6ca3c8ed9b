package spans

import (
	"unsafe"

	"github.com/tare-trace/tare/bpf"
)

// exchange is what was seen of a request and its response. Anything may stand in
// them: they were taken from the wire and cut at a fixed length.
type exchange struct {
	request, response []byte
	size              int // of the request, in bytes, with what was not seen
	texts             *arena
}

func (o *open) exchange() exchange {
	size := o.sent
	if o.role == bpf.TareRoleTARE_SERVER {
		size = o.received
	}
	return exchange{request: o.request[:o.requestN], response: o.response[:o.responseN], size: int(size)} //nolint:gosec // of one request
}

// arena holds strings, many in one piece of memory, which is never written again: those of spans that end at about the same
// time are let go at about the same time. nil: each has its own.
type arena struct{ last []byte }

const arenaSize = 16 << 10 // bytes in a piece

// begin returns room for a text of n bytes at most; keep makes a string of what was appended to it.
func (t *arena) begin(n int) []byte {
	if t == nil || n > arenaSize/8 {
		return make([]byte, 0, n)
	}
	if cap(t.last)-len(t.last) < n {
		t.last = make([]byte, 0, arenaSize)
	}
	return t.last[len(t.last):]
}

func (t *arena) keep(b []byte) string {
	if t != nil && cap(b) == cap(t.last)-len(t.last) {
		t.last = t.last[:len(t.last)+len(b)]
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// printable is the function of that name, with its text kept here.
func (t *arena) printable(b []byte) string {
	text := append(t.begin(len(b)), b...)
	for i, c := range text {
		if c < 0x20 || c >= 0x7f {
			text[i] = '.'
		}
	}
	return t.keep(text)
}
