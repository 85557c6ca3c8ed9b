package store

import (
	"encoding/binary"
	"math"

	spantext "github.com/tare-trace/tare/span/text"
)

// decoder reads what stands on disk. After the first error it returns zeros;
// done tells. It never allocates by a length that the bytes do not back.
type decoder struct {
	b     []byte
	bad   bool
	short bool // a name was cut
}

func (d *decoder) uint64() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uint64()
	if v > math.MaxUint32 {
		d.bad = true
		return 0
	}
	return uint32(v)
}

func (d *decoder) float64() float64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// take returns the next n bytes, without a copy.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// bytes reads a length and that many bytes, without a copy.
func (d *decoder) bytes() []byte { return d.take(d.uint64()) }

// name is a string that is cut to text.MostName bytes.
func (d *decoder) name() string {
	b := d.bytes()
	if len(b) > spantext.MostName {
		d.short = true
		return spantext.Name(string(b), spantext.MostName)
	}
	return string(b)
}

// count reads a number of elements that take at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.uint64()
	if n > uint64(len(d.b)/size) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

// done returns an error unless everything was read and was right.
func (d *decoder) done(what string) error {
	if d.bad || len(d.b) > 0 {
		return corrupt("%s cannot be decoded", what)
	}
	return nil
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}
