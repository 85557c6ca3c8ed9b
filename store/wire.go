package store

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/otel/wire"
	spantext "github.com/tare-trace/tare/span/text"
)

// keyValue splits an encoded KeyValue; value is an encoded AnyValue. It is asked
// for every attribute of many spans, so it does without eachField.
func keyValue(kv []byte) (key, value []byte, err error) {
	for len(kv) > 0 {
		num, typ, n := protowire.ConsumeTag(kv)
		if n < 0 {
			return nil, nil, errWire
		}
		m := 0
		if typ == protowire.BytesType {
			var b []byte
			b, m = protowire.ConsumeBytes(kv[n:])
			switch protowire.EncodeTag(num, typ) {
			case wire.KeyValueKey:
				key = b
			case wire.KeyValueValue:
				value = b
			}
		} else {
			m = protowire.ConsumeFieldValue(num, typ, kv[n:])
		}
		if m < 0 {
			return nil, nil, errWire
		}
		kv = kv[n+m:]
	}
	return key, value, nil
}

// stringBytes is the string in an encoded AnyValue, nil if it is none.
func stringBytes(value []byte) []byte {
	num, typ, n := protowire.ConsumeTag(value)
	if n < 0 || protowire.EncodeTag(num, typ) != wire.AnyValueString {
		return nil
	}
	s, m := protowire.ConsumeBytes(value[n:])
	if m < 0 {
		return nil
	}
	return s
}

func stringValue(value []byte) string { return string(stringBytes(value)) }

// nameValue is stringValue for a dictionary.
func nameValue(value []byte) string { return string(nameOf(stringBytes(value))) }

// nameOf is a name for a dictionary, which every query reads. Receivers cut names before; this is for what came by
// another way, or was stored before they did. The span keeps its own.
func nameOf(b []byte) []byte {
	if len(b) <= spantext.MostName {
		return b
	}
	return []byte(spantext.Name(string(b), spantext.MostName))
}

// boolValue is the bool in an encoded AnyValue, false if it is none.
func boolValue(value []byte) bool {
	is := false
	_ = eachField(value, func(tag, v uint64, _, _ []byte) error {
		is = is || tag == wire.AnyValueBool && v != 0
		return nil
	})
	return is
}
