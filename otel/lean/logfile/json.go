package logfile

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/otel/wire/fields"
)

// maxDepth bounds how deep arrays and maps of an attribute are nested; messages that Tare's collector
// accepts are below it.
const maxDepth = 100

// appendText appends s as a string of JSON. Bytes that are not UTF-8 become U+FFFD.
func appendText(b, s []byte) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendTime appends nanoseconds since 1970.
func appendTime(b []byte, ns uint64) []byte {
	return append(strconv.AppendUint(append(b, '"'), ns, 10), '"')
}

func appendHex(b, id []byte) []byte {
	return append(hex.AppendEncode(append(b, '"'), id), '"')
}

// pair reads a KeyValue.
func pair(kv []byte) (key, value []byte, err error) {
	err = fields.Each(kv, func(tag, _ uint64, content, _ []byte) error {
		switch tag {
		case wire.KeyValueKey:
			key = content
		case wire.KeyValueValue:
			value = content
		}
		return nil
	})
	return key, value, err
}

// appendPairs appends KeyValues as an object, without its closing brace. Those of a span may not have the
// keys that lines use themselves.
func appendPairs(b []byte, kvs [][]byte, ofSpan bool) ([]byte, error) {
	b = append(b, '{')
	first := len(b)
	for _, kv := range kvs {
		key, value, err := pair(kv)
		if err != nil {
			return b, err
		}
		if ofSpan && (string(key) == SpanKey || string(key) == BelowKey) {
			continue
		}
		if len(b) > first {
			b = append(b, ',')
		}
		b = append(appendText(b, key), ':')
		if b, err = appendValue(b, value, 0); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendValue appends an AnyValue.
func appendValue(b, value []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, errDeep
	}
	start := len(b)
	err := fields.Each(value, func(tag, v uint64, content, _ []byte) (err error) {
		b = b[:start] // of several, the last counts
		switch tag {
		case wire.AnyValueString:
			b = appendText(b, content)
		case wire.AnyValueBool:
			b = strconv.AppendBool(b, v != 0)
		case wire.AnyValueInt:
			b = strconv.AppendInt(b, int64(v), 10) //nolint:gosec // two's complement, as protobuf has it
		case wire.AnyValueDouble:
			b = appendDouble(b, math.Float64frombits(v))
		case wire.AnyValueBytes:
			b = append(b, `{"bytesValue":"`...)
			b = append(base64.StdEncoding.AppendEncode(b, content), `"}`...)
		case wire.AnyValueArray:
			b, err = appendArray(b, content, depth)
		case wire.AnyValueMap:
			b, err = appendObject(b, content, depth)
		}
		return err
	})
	if len(b) == start {
		b = append(b, "null"...)
	}
	return b, err
}

func appendDouble(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `{"doubleValue":"NaN"}`...)
	case math.IsInf(v, 1):
		return append(b, `{"doubleValue":"Infinity"}`...)
	case math.IsInf(v, -1):
		return append(b, `{"doubleValue":"-Infinity"}`...)
	}
	start := len(b)
	b = strconv.AppendFloat(b, v, 'g', -1, 64)
	for _, c := range b[start:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, ".0"...)
}

func appendArray(b, array []byte, depth int) ([]byte, error) {
	b = append(b, '[')
	first := len(b)
	err := fields.Each(array, func(tag, _ uint64, content, _ []byte) (err error) {
		if tag == wire.ArrayElement {
			if len(b) > first {
				b = append(b, ',')
			}
			b, err = appendValue(b, content, depth+1)
		}
		return err
	})
	return append(b, ']'), err
}

func appendObject(b, object []byte, depth int) ([]byte, error) {
	b = append(b, '{')
	first := len(b)
	err := fields.Each(object, func(tag, _ uint64, kv, _ []byte) error {
		if tag != wire.MapElement {
			return nil
		}
		if len(b) > first {
			b = append(b, ',')
		}
		key, value, err := pair(kv)
		if err != nil {
			return err
		}
		b, err = appendValue(append(appendText(b, key), ':'), value, depth+1)
		return err
	})
	return append(b, '}'), err
}

// fixed32 reads the value of a fixed32 field, which is its last four bytes.
func fixed32(whole []byte) uint32 { return binary.LittleEndian.Uint32(whole[len(whole)-4:]) }
