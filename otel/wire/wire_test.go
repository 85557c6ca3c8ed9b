package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/otel/wire/fields"
)

// What is written with a length that was not known is what is written with a known one, and is read back.
func TestOpenClose(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 1 << 21} {
		content := strings.Repeat("x", n)
		want := wire.AppendBytes([]byte("before"), wire.SpanName, content)
		assert.Equal(t, len(want), len("before")+wire.SizeField(n), "a field of %d bytes", n)
		for reserve := 1; reserve <= 4; reserve++ {
			b, start := wire.Open([]byte("before"), wire.SpanName, reserve)
			if b = wire.Close(append(b, content...), start, reserve); !bytes.Equal(b, want) {
				t.Errorf("%d bytes, %d reserved: the field differs", n, reserve)
			}
		}
		inner := wire.AppendBytes(nil, wire.ScopeSpansSpan, want[len("before"):])
		err := fields.Along(inner, func(b []byte) error {
			if string(b) != content {
				return errors.New("the content differs")
			}
			return nil
		}, wire.ScopeSpansSpan, wire.SpanName)
		assert.NoError(t, err, "%d bytes", n)
		assert.ErrorIs(t, fields.Each(inner[:len(inner)-1], func(_, _ uint64, _, _ []byte) error { return nil }), fields.ErrMalformed, "%d bytes, one cut off", n)
	}
}

// Attributes of any length are what the general functions make of them, which they are not made by where
// they are short.
func TestValuesOfAllLengths(t *testing.T) {
	for key := range 140 {
		k := strings.Repeat("k", key)
		for value := range 140 {
			v := strings.Repeat("v", value)
			want := wire.AppendBytes(wire.AppendKey([]byte("before"), wire.SpanAttribute, k, wire.SizeField(value)), wire.AnyValueString, v)
			require.Equal(t, want, wire.AppendStringValue([]byte("before"), wire.SpanAttribute, k, v), "key of %d bytes, value of %d", key, value)
		}
		for _, v := range []int64{0, 1, 127, 128, 65535, 1 << 35, -1} {
			want := wire.AppendVarint(wire.AppendKey([]byte("before"), wire.SpanAttribute, k, 1+wire.SizeVarint(uint64(v))), wire.AnyValueInt, uint64(v))
			require.Equal(t, want, wire.AppendIntValue([]byte("before"), wire.SpanAttribute, k, v), "key of %d bytes, value %d", key, v)
		}
	}
}
