package lean

import (
	"math"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/wire"
)

// valueLimits are the limits that reach into a value. They hold as in the SDK's v1.47: arrays and
// maps beyond depth become empty values, strings and byte strings are cut to length.
type valueLimits struct {
	depth  int // levels of arrays and maps; negative: no limit
	length int // runes of a string, bytes of a byte string; negative: no limit
	// raw keeps duplicate keys in maps: the SDK does not normalize resources.
	raw bool
}

// appendKeyValue writes a KeyValue message as a field.
func appendKeyValue(b []byte, tag byte, kv *attribute.KeyValue, lim valueLimits) []byte {
	key := wire.Text(string(kv.Key))
	switch kv.Value.Type() {
	case attribute.STRING:
		return wire.AppendStringValue(b, tag, key, wire.Text(truncate(kv.Value.AsString(), lim.length)))
	case attribute.INT64:
		return wire.AppendIntValue(b, tag, key, kv.Value.AsInt64())
	case attribute.BOOL:
		return wire.AppendBoolValue(b, tag, key, kv.Value.AsBool())
	case attribute.FLOAT64:
		return wire.AppendDoubleValue(b, tag, key, kv.Value.AsFloat64())
	}
	b, start, value := openKeyValue(b, tag, key)
	return closeKeyValue(appendValue(b, kv.Value, lim), start, value)
}

// openKeyValue begins a KeyValue field whose value's length is not known.
func openKeyValue(b []byte, tag byte, key string) (out []byte, start, value int) {
	b, start = wire.Open(b, tag, 1)
	if key != "" {
		b = wire.AppendBytes(b, wire.KeyValueKey, key)
	}
	b, value = wire.Open(b, wire.KeyValueValue, 1)
	return b, start, value
}

func closeKeyValue(b []byte, start, value int) []byte {
	return wire.Close(wire.Close(b, value, 1), start, 1)
}

func appendStringsKV(b []byte, tag byte, key string, v []string, length int) []byte {
	b, start, value := openKeyValue(b, tag, wire.Text(key))
	return closeKeyValue(appendStrings(b, v, length), start, value)
}

// appendValue writes the inside of an AnyValue.
func appendValue(b []byte, v attribute.Value, lim valueLimits) []byte {
	switch v.Type() {
	case attribute.EMPTY:
		return b
	case attribute.BOOL:
		return append(b, wire.AnyValueBool, wire.BoolByte(v.AsBool()))
	case attribute.INT64:
		return wire.AppendVarint(b, wire.AnyValueInt, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return wire.AppendFixed64(b, wire.AnyValueDouble, math.Float64bits(v.AsFloat64()))
	case attribute.STRING:
		return wire.AppendBytes(b, wire.AnyValueString, wire.Text(truncate(v.AsString(), lim.length)))
	}
	if lim.depth == 0 {
		return b // an array or map too deep: an empty value in its place
	}
	inside := lim
	if inside.depth > 0 {
		inside.depth--
	}
	switch v.Type() {
	case attribute.BYTESLICE:
		s := v.AsString() // without AsByteSlice's copy
		if lim.length >= 0 && len(s) > lim.length {
			s = s[:lim.length]
		}
		return wire.AppendBytes(b, wire.AnyValueBytes, s)
	case attribute.STRINGSLICE:
		return appendStrings(b, v.AsStringSlice(), lim.length)
	case attribute.BOOLSLICE:
		b, start := wire.Open(b, wire.AnyValueArray, 1)
		for _, e := range v.AsBoolSlice() {
			b = append(b, wire.ArrayElement, 2, wire.AnyValueBool, wire.BoolByte(e))
		}
		return wire.Close(b, start, 1)
	case attribute.INT64SLICE:
		b, start := wire.Open(b, wire.AnyValueArray, 1)
		for _, e := range v.AsInt64Slice() {
			b = wire.AppendHead(b, wire.ArrayElement, 1+wire.SizeVarint(uint64(e)))
			b = wire.AppendVarint(b, wire.AnyValueInt, uint64(e))
		}
		return wire.Close(b, start, 1)
	case attribute.FLOAT64SLICE:
		b, start := wire.Open(b, wire.AnyValueArray, 1)
		for _, e := range v.AsFloat64Slice() {
			b = wire.AppendHead(b, wire.ArrayElement, 9)
			b = wire.AppendFixed64(b, wire.AnyValueDouble, math.Float64bits(e))
		}
		return wire.Close(b, start, 1)
	case attribute.SLICE:
		b, start := wire.Open(b, wire.AnyValueArray, 1)
		for _, e := range v.AsSlice() {
			var elem int
			b, elem = wire.Open(b, wire.ArrayElement, 1)
			b = wire.Close(appendValue(b, e, inside), elem, 1)
		}
		return wire.Close(b, start, 1)
	case attribute.MAP:
		return appendMap(b, v.AsMap(), inside)
	}
	return wire.AppendBytes(b, wire.AnyValueString, "INVALID") // as the official exporter has it
}

// appendMap writes sorted keys; of equal ones the last counts.
func appendMap(b []byte, kvs []attribute.KeyValue, inside valueLimits) []byte {
	b, start := wire.Open(b, wire.AnyValueMap, 1)
	for i := range kvs {
		if !inside.raw && i+1 < len(kvs) && kvs[i+1].Key == kvs[i].Key {
			continue
		}
		b = appendKeyValue(b, wire.MapElement, &kvs[i], inside)
	}
	return wire.Close(b, start, 1)
}

func appendStrings(b []byte, v []string, length int) []byte {
	b, start := wire.Open(b, wire.AnyValueArray, 1)
	for _, e := range v {
		e = wire.Text(truncate(e, length))
		b = wire.AppendHead(b, wire.ArrayElement, wire.SizeField(len(e)))
		b = wire.AppendBytes(b, wire.AnyValueString, e)
	}
	return wire.Close(b, start, 1)
}

// truncate cuts s to limit runes as the SDK does: a string of at most limit bytes stays what it
// is, and bytes that are not UTF-8 are removed before a longer one is counted.
func truncate(s string, limit int) string {
	if limit < 0 || len(s) <= limit {
		return s
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "")
	}
	runes := 0
	for i := range s {
		if runes == limit {
			return s[:i]
		}
		runes++
	}
	return s
}
