// Package fields walks the fields of protobuf messages without generated code:
// for readers that want few fields of a message and must not pay for the others,
// nor link its types. Of a field that repeats, all are seen; which one counts is
// the caller's.
package fields

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is returned for bytes that are no protobuf message.
var ErrMalformed = errors.New("malformed protobuf")

// Func takes one field of a message. Its tag is number<<3 | type: a field of a wrong type has
// another tag, and so is unknown. value is that of a varint or fixed64, content what a field with a
// length holds, whole the field with its tag; the slices point into the message.
type Func = func(tag, value uint64, content, whole []byte) error

// Each calls f for every field of the message b, in order, until f returns an error.
func Each(b []byte, f Func) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed(n)
		}
		var value uint64
		var content []byte
		m := 0
		switch rest := b[n:]; typ {
		case protowire.VarintType:
			value, m = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			value, m = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			content, m = protowire.ConsumeBytes(rest)
		default:
			m = protowire.ConsumeFieldValue(num, typ, rest)
		}
		if m < 0 {
			return malformed(m)
		}
		if err := f(protowire.EncodeTag(num, typ), value, content, b[:n+m]); err != nil {
			return err
		}
		b = b[n+m:]
	}
	return nil
}

// Along calls f with the content of every field that the tags lead to, from the message b inward:
// the first is a tag of b's fields, the next one of these fields' own, and so on.
func Along(b []byte, f func(content []byte) error, tags ...uint64) error {
	if len(tags) == 0 {
		return f(b)
	}
	return Each(b, func(tag, _ uint64, content, _ []byte) error {
		if tag != tags[0] {
			return nil
		}
		return Along(content, f, tags[1:]...)
	})
}

func malformed(n int) error { return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n)) }
