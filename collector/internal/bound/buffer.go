package bound

import (
	"math/bits"
	"sync"
)

// pooled is the size of the largest buffers that are kept for later bodies, in bytes.
const pooled = 1 << 20

// buffers are unused ones, by the logarithm of their size.
var buffers [21]sync.Pool

// bufferSize is the size of the buffer that is taken for n bytes.
func bufferSize(n int64) int64 {
	if n > pooled {
		return n
	}
	return 1 << bits.Len64(uint64(n-1)) //nolint:gosec // positive
}

// newBuffer returns an empty one of a size by bufferSize.
func newBuffer(size int64) []byte {
	if size <= pooled {
		if b, ok := buffers[bits.Len64(uint64(size-1))].Get().(*[]byte); ok { //nolint:gosec // positive
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// keepBuffer keeps one of newBuffer, which nothing may hold any more.
func keepBuffer(b []byte) {
	if n := cap(b); n > 0 && n <= pooled {
		buffers[bits.Len(uint(n-1))].Put(&b) //nolint:gosec // positive
	}
}
