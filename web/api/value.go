package api

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// attribute has its value as a string, whatever its type, so that numbers beyond 2^53,
// infinities and bytes keep their value.
type attribute struct {
	Key   string `json:"key"`
	Type  string `json:"type"` // string, int, double, bool, bytes, array, map
	Value string `json:"value"`
}

// attributes is never nil: an empty list is [] and not null.
func attributes(m pcommon.Map) []attribute {
	out := make([]attribute, 0, m.Len())
	for k, v := range m.All() {
		kind, text := value(v)
		out = append(out, attribute{k, kind, text})
	}
	return out
}

// value returns a value's type and text: base64 for bytes, JSON for arrays and maps.
func value(v pcommon.Value) (kind, text string) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return "int", strconv.FormatInt(v.Int(), 10)
	case pcommon.ValueTypeDouble:
		return "double", doubleText(v.Double())
	case pcommon.ValueTypeBool:
		return "bool", strconv.FormatBool(v.Bool())
	case pcommon.ValueTypeBytes:
		return "bytes", base64.StdEncoding.EncodeToString(v.Bytes().AsRaw())
	case pcommon.ValueTypeSlice:
		return "array", nested(v.Slice().AsRaw())
	case pcommon.ValueTypeMap:
		return "map", nested(v.Map().AsRaw())
	default: // string, empty
		return "string", v.AsString()
	}
}

// doubleText is the shortest text that parses to f; NaN, +Inf and -Inf are spelled so.
func doubleText(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// nested is the JSON of an array or a map; numbers that JSON cannot represent are
// strings.
func nested(raw any) string {
	b, err := json.Marshal(speakable(raw))
	if err != nil { // nothing that pdata holds
		return ""
	}
	return string(b)
}

// speakable replaces NaN and infinities by strings, in place.
func speakable(raw any) any {
	switch raw := raw.(type) {
	case float64:
		if math.IsNaN(raw) || math.IsInf(raw, 0) {
			return doubleText(raw)
		}
	case []any:
		for i := range raw {
			raw[i] = speakable(raw[i])
		}
	case map[string]any:
		for k := range raw {
			raw[k] = speakable(raw[k])
		}
	}
	return raw
}
