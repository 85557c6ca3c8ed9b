package lean

import (
	"encoding/binary"
	"math"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/wire"
)

// decodeValue reads an AnyValue of this package's making; strings share b's memory. An array comes
// back as the slice of its elements' type if they have one, as rules know it.
func decodeValue(b []byte) attribute.Value {
	if len(b) == 0 {
		return attribute.Value{}
	}
	tag, b := b[0], b[1:]
	if tag == wire.AnyValueDouble {
		return attribute.Float64Value(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	v, n := binary.Uvarint(b)
	b = b[n:]
	switch tag {
	case wire.AnyValueBool:
		return attribute.BoolValue(v != 0)
	case wire.AnyValueInt:
		return attribute.Int64Value(int64(v))
	case wire.AnyValueString:
		return attribute.StringValue(alias(b))
	case wire.AnyValueBytes:
		return attribute.ByteSliceValue(b)
	case wire.AnyValueArray:
		return decodeArray(b)
	case wire.AnyValueMap:
		var kvs []attribute.KeyValue
		for len(b) > 0 {
			var field []byte
			field, b = cutField(b)
			kvs = append(kvs, decodeKeyValue(field))
		}
		return attribute.MapValue(kvs...)
	}
	return attribute.Value{}
}

// decodeKeyValue reads a KeyValue of this package's making; the key shares b's memory.
func decodeKeyValue(b []byte) (kv attribute.KeyValue) {
	if b[0] == wire.KeyValueKey {
		var key []byte
		key, b = cutField(b)
		kv.Key = attribute.Key(alias(key))
	}
	value, _ := cutField(b)
	kv.Value = decodeValue(value)
	return kv
}

// cutField takes a length-delimited field of one tag byte off b.
func cutField(b []byte) (content, rest []byte) {
	n, w := binary.Uvarint(b[1:])
	b = b[1+w:]
	return b[:n], b[n:]
}

func decodeArray(b []byte) attribute.Value {
	var vs []attribute.Value
	same := true
	for len(b) > 0 {
		var e []byte
		e, b = cutField(b)
		vs = append(vs, decodeValue(e))
		same = same && vs[len(vs)-1].Type() == vs[0].Type()
	}
	if !same || len(vs) == 0 {
		return attribute.SliceValue(vs...)
	}
	switch vs[0].Type() {
	case attribute.STRING:
		return attribute.StringSliceValue(elements(vs, attribute.Value.AsString))
	case attribute.INT64:
		return attribute.Int64SliceValue(elements(vs, attribute.Value.AsInt64))
	case attribute.FLOAT64:
		return attribute.Float64SliceValue(elements(vs, attribute.Value.AsFloat64))
	case attribute.BOOL:
		return attribute.BoolSliceValue(elements(vs, attribute.Value.AsBool))
	}
	return attribute.SliceValue(vs...)
}

func elements[T any](vs []attribute.Value, get func(attribute.Value) T) []T {
	out := make([]T, len(vs))
	for i := range vs {
		out[i] = get(vs[i])
	}
	return out
}
