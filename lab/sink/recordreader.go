package sink

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// recordReader reads the records of a file, one after the other, into buffers
// that it uses again.
type recordReader struct {
	in     io.Reader
	raw    []byte
	packed bytes.Reader
	zip    *gzip.Reader
	plain  bytes.Buffer
}

// next returns a body after decompression, valid until it is called again, or
// io.EOF after the last record.
func (r *recordReader) next() ([]byte, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint32(head[:]))
	if size > MaxBody || head[4] > 1 {
		return nil, errors.New("this is no file of received spans")
	}
	if cap(r.raw) < size {
		r.raw = make([]byte, size)
	}
	r.raw = r.raw[:size]
	if _, err := io.ReadFull(r.in, r.raw); err != nil {
		return nil, fmt.Errorf("the file ends within a body: %w", io.ErrUnexpectedEOF)
	}
	if head[4] == 0 {
		return r.raw, nil
	}
	return r.unzip()
}

// unzip refuses what is larger than MaxBody.
func (r *recordReader) unzip() ([]byte, error) {
	r.packed.Reset(r.raw)
	var err error
	if r.zip == nil {
		r.zip, err = gzip.NewReader(&r.packed)
	} else {
		err = r.zip.Reset(&r.packed)
	}
	if err == nil {
		r.plain.Reset()
		_, err = r.plain.ReadFrom(io.LimitReader(r.zip, MaxBody+1))
	}
	if err != nil { // not wrapped: io.EOF would end the walk
		return nil, fmt.Errorf("decompressing: %v", err) //nolint:errorlint // see above
	}
	if r.plain.Len() > MaxBody {
		return nil, errLarge
	}
	return r.plain.Bytes(), nil
}
