// Package event decodes the records that the kernel side writes to its ring buffers: it
// has their bytes as the types generated from event.h, and checks lengths and types.
// It does not interpret them.
package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/tare-trace/tare/bpf"
)

// Sizes of the records in bytes, from the generated types.
const (
	StartSize = int(unsafe.Sizeof(bpf.Start{}))
	DataSize  = int(unsafe.Sizeof(bpf.Data{}))
	EndSize   = int(unsafe.Sizeof(bpf.End{}))

	PublishedSize = int(unsafe.Sizeof(bpf.Published{}))
	PathSize      = int(unsafe.Sizeof(bpf.Path{}))
)

// ErrMalformed is wrapped by every error of this package.
var ErrMalformed = errors.New("malformed record")

// Record holds one decoded record; Type says which field is valid. It is meant to be
// reused: decoding does not allocate.
type Record struct {
	Type  bpf.TareRecordType
	Start *bpf.Start // where it lies, so valid as long as that, and not to be written
	Data  Data
	End   bpf.End

	Published bpf.Published
	Path      bpf.Path

	start bpf.Start // of one that does not lie as its type has to
}

// Data is a bpf.Data, whose record may be shorter than that type.
type Data struct {
	Direction, Flags uint8
	Bytes            uint32
	TS, SpanID       uint64
	Payload          []byte // where it lies
}

// Payload returns the message bytes in the record. They alias the record and are valid
// until the next Decode.
func (r *Record) Payload() []byte {
	switch r.Type {
	case bpf.TareRecordTypeTARE_START:
		return r.Start.Payload[:r.Start.PayloadLen]
	case bpf.TareRecordTypeTARE_DATA:
		return r.Data.Payload
	}
	return nil
}

// Decode decodes one record from the ring buffer.
func (r *Record) Decode(raw []byte) error {
	if len(raw) == 0 {
		return fmt.Errorf("%w: empty", ErrMalformed)
	}
	r.Type = bpf.TareRecordType(raw[0])
	switch r.Type {
	case bpf.TareRecordTypeTARE_START:
		if len(raw) < StartSize {
			return tooShort("start", len(raw), StartSize)
		}
		if p := unsafe.Pointer(unsafe.SliceData(raw)); uintptr(p)%unsafe.Alignof(r.start) == 0 {
			r.Start = (*bpf.Start)(p)
		} else {
			copy(bytesOf(&r.start), raw)
			r.Start = &r.start
		}
		if int(r.Start.PayloadLen) > len(r.Start.Payload) {
			return fmt.Errorf("%w: start with %d bytes of payload", ErrMalformed, r.Start.PayloadLen)
		}
		if role := bpf.TareRole(r.Start.Role); role != bpf.TareRoleTARE_SERVER && role != bpf.TareRoleTARE_CLIENT {
			return fmt.Errorf("%w: start with role %d", ErrMalformed, role)
		}
	case bpf.TareRecordTypeTARE_DATA:
		if len(raw) < bpf.DataShort {
			return tooShort("data", len(raw), bpf.DataShort)
		}
		var d bpf.Data
		size := int(raw[unsafe.Offsetof(d.PayloadLen)])
		if bpf.DataShort+size > len(raw) || size > len(d.Payload) {
			return fmt.Errorf("%w: data with %d bytes of payload in %d", ErrMalformed, size, len(raw))
		}
		r.Data = Data{
			Direction: raw[unsafe.Offsetof(d.Direction)], Flags: raw[unsafe.Offsetof(d.Flags)],
			Bytes:   binary.NativeEndian.Uint32(raw[unsafe.Offsetof(d.Bytes):]),
			TS:      binary.NativeEndian.Uint64(raw[unsafe.Offsetof(d.Ts):]),
			SpanID:  binary.NativeEndian.Uint64(raw[unsafe.Offsetof(d.SpanId):]),
			Payload: raw[bpf.DataShort : bpf.DataShort+size],
		}
	case bpf.TareRecordTypeTARE_END:
		if len(raw) < EndSize {
			return tooShort("end", len(raw), EndSize)
		}
		copy(bytesOf(&r.End), raw)
	case bpf.TareRecordTypeTARE_PUBLISHED:
		if len(raw) < PublishedSize {
			return tooShort("published", len(raw), PublishedSize)
		}
		copy(bytesOf(&r.Published), raw)
	case bpf.TareRecordTypeTARE_PATH:
		if len(raw) < PathSize {
			return tooShort("path", len(raw), PathSize)
		}
		copy(bytesOf(&r.Path), raw)
		if int(r.Path.Len) > len(r.Path.Path) {
			return fmt.Errorf("%w: path of %d bytes", ErrMalformed, r.Path.Len)
		}
	default:
		return fmt.Errorf("%w: type %d", ErrMalformed, raw[0])
	}
	return nil
}

func tooShort(what string, got, want int) error {
	return fmt.Errorf("%w: %s of %d bytes, want %d", ErrMalformed, what, got, want)
}

func bytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// DecodeControl decodes a record of the control ring.
func DecodeControl(raw []byte) (c bpf.Control, err error) {
	if len(raw) < int(unsafe.Sizeof(c)) {
		return c, tooShort("control", len(raw), int(unsafe.Sizeof(c)))
	}
	copy(bytesOf(&c), raw)
	return c, nil
}
