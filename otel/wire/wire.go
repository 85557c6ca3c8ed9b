// Package wire appends protobuf's wire format to byte slices, as far as OTLP's
// trace messages need it, and names the fields of these messages. It is what
// [github.com/tare-trace/tare/otel/lean] and Tare's agent share; a service has no
// use for it. It links only the standard library, which is why reading is apart,
// in fields.
//
// It does not know messages: in which order fields stand, which may be left out and
// how long a message becomes is the caller's. Tags are one byte, unless a function
// says otherwise.
package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// SizeVarint is the number of bytes of v as a varint.
func SizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// SizeField is the number of bytes of a field with n bytes of content.
func SizeField(n int) int { return 1 + SizeVarint(uint64(n)) + n }

// AppendHead appends the tag and the length of a field: n bytes of content must follow.
func AppendHead(b []byte, tag byte, n int) []byte {
	if n < 0x80 {
		return append(b, tag, byte(n))
	}
	return binary.AppendUvarint(append(b, tag), uint64(n))
}

// AppendBytes appends a bytes or string field; v is valid UTF-8 where the field is a string.
func AppendBytes[T string | []byte](b []byte, tag byte, v T) []byte {
	return append(AppendHead(b, tag, len(v)), v...)
}

// AppendVarint appends a field whose value is a varint.
func AppendVarint(b []byte, tag byte, v uint64) []byte {
	return binary.AppendUvarint(append(b, tag), v)
}

// AppendFixed64 appends a field whose value is a fixed64, or a double's bits.
func AppendFixed64(b []byte, tag byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, tag), v)
}

// AppendFixed32 appends a field whose value is a fixed32. The tag may be longer than one byte.
func AppendFixed32(b []byte, tag uint64, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, tag), v)
}

// Open begins a field whose length is not known yet, and leaves `reserve` bytes for it, at most
// four. What is appended to out up to [Close], which is given the same reserve and what Open
// returned, is the content.
func Open(b []byte, tag byte, reserve int) (out []byte, start int) {
	b = append(b, tag, 0, 0, 0, 0)
	b = b[:len(b)-4+reserve]
	return b, len(b)
}

// Close writes the length in front of the content. If it takes more or fewer bytes than were
// reserved, the content moves: right, but slower.
func Close(b []byte, start, reserve int) []byte {
	n := len(b) - start
	switch {
	case n < 0x80 && reserve == 1:
		b[start-1] = byte(n)
		return b
	case n >= 0x80 && n < 1<<14 && reserve == 2:
		b[start-2], b[start-1] = byte(n)|0x80, byte(n>>7)
		return b
	}
	size := SizeVarint(uint64(n))
	at := start - reserve + size // where the content belongs
	if size > reserve {
		var more [binary.MaxVarintLen64]byte
		b = append(b, more[:size-reserve]...)
	}
	if size != reserve {
		copy(b[at:], b[start:start+n])
	}
	binary.PutUvarint(b[start-reserve:at], uint64(n))
	return b[:at+n]
}

// Text returns s as protobuf allows it in a string field: whatever is not valid UTF-8 is replaced
// by U+FFFD. A receiver would refuse the whole request because of one such string.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// AppendStringValue appends a KeyValue field with a string. Key and value must be valid UTF-8.
func AppendStringValue(b []byte, tag byte, key, v string) []byte {
	b = AppendKey(b, tag, key, SizeField(len(v)))
	return AppendBytes(b, AnyValueString, v)
}

// AppendIntValue appends a KeyValue field with an integer. The key must be valid UTF-8.
func AppendIntValue(b []byte, tag byte, key string, v int64) []byte {
	b = AppendKey(b, tag, key, 1+SizeVarint(uint64(v)))
	return AppendVarint(b, AnyValueInt, uint64(v))
}

// AppendBoolValue appends a KeyValue field with a bool. The key must be valid UTF-8.
func AppendBoolValue(b []byte, tag byte, key string, v bool) []byte {
	b = AppendKey(b, tag, key, 2)
	return append(b, AnyValueBool, BoolByte(v))
}

// AppendDoubleValue appends a KeyValue field with a float. The key must be valid UTF-8.
func AppendDoubleValue(b []byte, tag byte, key string, v float64) []byte {
	b = AppendKey(b, tag, key, 9)
	return AppendFixed64(b, AnyValueDouble, math.Float64bits(v))
}

// AppendKey appends everything of a KeyValue field but the n bytes of its AnyValue's content. An
// empty key takes no bytes.
func AppendKey(b []byte, tag byte, key string, n int) []byte {
	if key != "" && 2+len(key)+2+n < 0x80 { // nearly every attribute: all lengths are one byte
		b = append(b, tag, byte(2+len(key)+2+n), KeyValueKey, byte(len(key)))
		b = append(b, key...)
		return append(b, KeyValueValue, byte(n))
	}
	size := SizeField(n)
	if key != "" {
		size += SizeField(len(key))
	}
	b = AppendHead(b, tag, size)
	if key != "" {
		b = AppendBytes(b, KeyValueKey, key)
	}
	return AppendHead(b, KeyValueValue, n)
}

// BoolByte is the varint of a bool.
func BoolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}
