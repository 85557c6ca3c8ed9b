package otlp

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// utf8Text returns s, or s with every invalid run replaced: proto3 strings
// must be UTF-8, or the receiver refuses the whole message.
func utf8Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// appendLen appends a length; nearly all are below 128.
func appendLen(dst []byte, n int) []byte {
	if n < 1<<7 {
		return append(dst, byte(n))
	}
	return protowire.AppendVarint(dst, uint64(n))
}

// sizeLen is the number of bytes that appendLen takes for n.
func sizeLen(n int) int {
	if n < 1<<7 {
		return 1
	}
	return protowire.SizeVarint(uint64(n))
}

// sizeField is the size of a length-delimited field with a one-byte tag.
func sizeField(n int) int { return 1 + sizeLen(n) + n }

// appendString appends a string field with a one-byte tag, or nothing if s is
// empty. s must be UTF-8.
func appendString(dst []byte, tag byte, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(dst, tag)
	dst = appendLen(dst, len(s))
	return append(dst, s...)
}

// sizeString is the size of what appendString appends.
func sizeString(s string) int {
	if s == "" {
		return 0
	}
	return sizeField(len(s))
}

// openField starts a length-delimited field whose length is not known yet,
// leaving reserve bytes for it. Everything appended from here on, up to
// closeField with the same arguments, is its content.
func openField(dst []byte, tag byte, reserve int) (out []byte, content int) {
	dst = append(dst, tag)
	for range reserve {
		dst = append(dst, 0)
	}
	return dst, len(dst)
}

// closeField writes the length in front of the content. If reserve was the
// wrong guess, the content moves: right, but slower.
func closeField(dst []byte, content, reserve int) []byte {
	n := len(dst) - content
	need := sizeLen(n)
	if need != reserve {
		if need > reserve {
			dst = append(dst, make([]byte, need-reserve)...)
		}
		copy(dst[content-reserve+need:], dst[content:content+n])
		dst = dst[:content-reserve+need+n]
	}
	putVarint(dst[content-reserve:], uint64(n))
	return dst
}

func putVarint(b []byte, v uint64) {
	i := 0
	for ; v >= 1<<7; i++ {
		b[i] = byte(v) | 1<<7
		v >>= 7
	}
	b[i] = byte(v)
}
