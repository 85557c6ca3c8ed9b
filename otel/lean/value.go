package lean

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
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
	switch kv.Value.Type() {
	case attribute.STRING:
		return appendStringKV(b, tag, string(kv.Key), kv.Value.AsString(), lim.length)
	case attribute.INT64:
		return appendIntKV(b, tag, string(kv.Key), kv.Value.AsInt64())
	case attribute.BOOL:
		return appendBoolKV(b, tag, string(kv.Key), kv.Value.AsBool())
	case attribute.FLOAT64:
		return appendFloatKV(b, tag, string(kv.Key), kv.Value.AsFloat64())
	}
	b, start := openField(b, tag)
	b = appendString(b, tagKey, validText(string(kv.Key)))
	b, value := openField(b, tagValue)
	b = appendValue(b, kv.Value, lim)
	b = closeField(b, value)
	return closeField(b, start)
}

// The scalars know their lengths, so that nothing has to move.

func appendStringKV(b []byte, tag byte, key, v string, length int) []byte {
	key, v = validText(key), validText(truncate(v, length))
	if len(key)+len(v) < 0x80-8 {
		b = append(b, tag, byte(2+len(key)+4+len(v)), tagKey, byte(len(key)))
		b = append(b, key...)
		b = append(b, tagValue, byte(2+len(v)), tagValueString, byte(len(v)))
		return append(b, v...)
	}
	inner := 1 + varintLen(uint64(len(v))) + len(v)
	b = appendKey(b, tag, key, inner)
	return appendString(b, tagValueString, v)
}

func appendIntKV(b []byte, tag byte, key string, v int64) []byte {
	b = appendKey(b, tag, validText(key), 1+varintLen(uint64(v)))
	return appendVarint(append(b, tagValueInt), uint64(v))
}

func appendBoolKV(b []byte, tag byte, key string, v bool) []byte {
	b = appendKey(b, tag, validText(key), 2)
	return append(b, tagValueBool, boolByte(v))
}

func appendFloatKV(b []byte, tag byte, key string, v float64) []byte {
	b = appendKey(b, tag, validText(key), 9)
	return appendFixed64(b, tagValueDouble, math.Float64bits(v))
}

func appendStringsKV(b []byte, tag byte, key string, v []string, length int) []byte {
	b, start := openField(b, tag)
	b = appendString(b, tagKey, validText(key))
	b, value := openField(b, tagValue)
	b = appendStrings(b, v, length)
	b = closeField(b, value)
	return closeField(b, start)
}

// appendKey writes everything of a KeyValue field but the AnyValue's `inner` bytes.
func appendKey(b []byte, tag byte, key string, inner int) []byte {
	if len(key)+inner < 0x80-4 {
		b = append(b, tag, byte(2+len(key)+2+inner), tagKey, byte(len(key)))
		b = append(b, key...)
		return append(b, tagValue, byte(inner))
	}
	n := 1 + varintLen(uint64(len(key))) + len(key) + 1 + varintLen(uint64(inner)) + inner
	b = appendVarint(append(b, tag), uint64(n))
	b = appendString(b, tagKey, key)
	return appendVarint(append(b, tagValue), uint64(inner))
}

// appendValue writes the inside of an AnyValue.
func appendValue(b []byte, v attribute.Value, lim valueLimits) []byte {
	switch v.Type() {
	case attribute.EMPTY:
		return b
	case attribute.BOOL:
		return append(b, tagValueBool, boolByte(v.AsBool()))
	case attribute.INT64:
		return appendVarint(append(b, tagValueInt), uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return appendFixed64(b, tagValueDouble, math.Float64bits(v.AsFloat64()))
	case attribute.STRING:
		return appendString(b, tagValueString, validText(truncate(v.AsString(), lim.length)))
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
		return appendString(b, tagValueBytes, s)
	case attribute.STRINGSLICE:
		return appendStrings(b, v.AsStringSlice(), lim.length)
	case attribute.BOOLSLICE:
		b, start := openField(b, tagValueArray)
		for _, e := range v.AsBoolSlice() {
			b = append(b, tagArrayElement, 2, tagValueBool, boolByte(e))
		}
		return closeField(b, start)
	case attribute.INT64SLICE:
		b, start := openField(b, tagValueArray)
		for _, e := range v.AsInt64Slice() {
			b = append(b, tagArrayElement, byte(1+varintLen(uint64(e))), tagValueInt)
			b = appendVarint(b, uint64(e))
		}
		return closeField(b, start)
	case attribute.FLOAT64SLICE:
		b, start := openField(b, tagValueArray)
		for _, e := range v.AsFloat64Slice() {
			b = append(b, tagArrayElement, 9, tagValueDouble)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e))
		}
		return closeField(b, start)
	case attribute.SLICE:
		b, start := openField(b, tagValueArray)
		for _, e := range v.AsSlice() {
			var elem int
			b, elem = openField(b, tagArrayElement)
			b = closeField(appendValue(b, e, inside), elem)
		}
		return closeField(b, start)
	case attribute.MAP:
		return appendMap(b, v.AsMap(), inside)
	}
	return appendString(b, tagValueString, "INVALID") // as the official exporter has it
}

// appendMap writes sorted keys; of equal ones the last counts.
func appendMap(b []byte, kvs []attribute.KeyValue, inside valueLimits) []byte {
	b, start := openField(b, tagValueMap)
	for i := range kvs {
		if !inside.raw && i+1 < len(kvs) && kvs[i+1].Key == kvs[i].Key {
			continue
		}
		b = appendKeyValue(b, tagMapElement, &kvs[i], inside)
	}
	return closeField(b, start)
}

func appendStrings(b []byte, v []string, length int) []byte {
	b, start := openField(b, tagValueArray)
	for _, e := range v {
		e = validText(truncate(e, length))
		b = appendVarint(append(b, tagArrayElement), uint64(1+varintLen(uint64(len(e)))+len(e)))
		b = appendString(b, tagValueString, e)
	}
	return closeField(b, start)
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
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
