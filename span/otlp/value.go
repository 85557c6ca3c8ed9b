package otlp

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// valueText is the text of a value that the model has no type for, as
// OpenTelemetry prescribes for backends without such types.
func valueText(v *commonpb.AnyValue) string {
	switch x := plain(v).(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	default:
		text, err := json.Marshal(x)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

// plain turns a value into what encoding/json understands. Depth is bounded:
// protobuf's own decoder refuses messages nested too deep.
func plain(v *commonpb.AnyValue) any {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_BoolValue:
		return x.BoolValue
	case *commonpb.AnyValue_IntValue:
		return x.IntValue
	case *commonpb.AnyValue_DoubleValue:
		switch f := x.DoubleValue; {
		case math.IsNaN(f):
			return "NaN"
		case math.IsInf(f, 1):
			return "Infinity"
		case math.IsInf(f, -1):
			return "-Infinity"
		default:
			return f
		}
	case *commonpb.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(x.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		list := make([]any, len(x.ArrayValue.GetValues()))
		for i, e := range x.ArrayValue.GetValues() {
			list[i] = plain(e)
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		m := make(map[string]any, len(x.KvlistValue.GetValues()))
		for _, kv := range x.KvlistValue.GetValues() {
			m[kv.GetKey()] = plain(kv.GetValue())
		}
		return m
	default:
		return nil
	}
}
