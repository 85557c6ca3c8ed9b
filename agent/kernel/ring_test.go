package kernel

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Records come out whole wherever they lie, also where one ends at the beginning of the buffer; discarded ones do not.
func TestRingRecords(t *testing.T) {
	const size = 256
	var read, written uint64
	r := &ring{read: &read, written: &written, data: make([]byte, size), mask: size - 1}
	var want, got []string
	for i := range 500 {
		text := fmt.Sprintf("%0*d", 1+i*7%90, i)
		header := uint32(len(text)) //nolint:gosec // small
		if i%5 == 0 {
			header |= ringDiscard
		} else {
			want = append(want, text)
		}
		binary.NativeEndian.PutUint32(r.data[written&r.mask:], header)
		for k := range text {
			r.data[(written+ringHeader+uint64(k))&r.mask] = text[k]
		}
		written += (ringHeader + uint64(len(text)) + 7) &^ 7
		if i%2 == 0 {
			r.drain(func(raw []byte) { got = append(got, string(raw)) })
			assert.Equal(t, written, read)
		}
	}
	r.drain(func(raw []byte) { got = append(got, string(raw)) })
	assert.Equal(t, want, got)
}
