package redactprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/redact"
)

// value redacts the value of a key in place. A redacted value becomes a string, as in the
// library; bytes stay bytes, and arrays stay arrays.
func (r *redactor) value(k redact.Key, v pcommon.Value, depth int) {
	if k.Whole() {
		whole(k, v)
		return
	}
	switch v.Type() {
	case pcommon.ValueTypeStr: // by far the most frequent
		if s := v.Str(); s != "" {
			if out := redacted(s, k.Text); out != s {
				v.SetStr(out)
			}
		}
	case pcommon.ValueTypeInt:
		if out, changed := k.Int(v.Int()); changed {
			v.SetStr(out)
		}
	case pcommon.ValueTypeDouble:
		if out, changed := k.Float(v.Double()); changed {
			v.SetStr(out)
		}
	case pcommon.ValueTypeBytes:
		if out, changed := k.Bytes(v.Bytes().AsRaw()); changed {
			v.Bytes().FromRaw(out)
		}
	case pcommon.ValueTypeSlice:
		if depth >= redact.MaxDepth {
			v.SetStr(r.rules.TooDeep())
			return
		}
		for _, e := range v.Slice().All() {
			r.value(k, e, depth+1)
		}
	case pcommon.ValueTypeMap:
		if depth >= redact.MaxDepth {
			v.SetStr(r.rules.TooDeep())
			return
		}
		r.attributes(v.Map(), depth+1)
	}
}

// whole replaces a whole value: each element of an array of strings, else the value by
// one string.
func whole(k redact.Key, v pcommon.Value) {
	if v.Type() == pcommon.ValueTypeSlice && onlyTexts(v.Slice()) {
		for _, e := range v.Slice().All() {
			if out := k.Text(e.Str()); out != e.Str() {
				e.SetStr(out)
			}
		}
		return
	}
	s := textOf(v)
	if out := k.Text(s); out != s || v.Type() != pcommon.ValueTypeStr {
		v.SetStr(out)
	}
}

func onlyTexts(s pcommon.Slice) bool {
	for _, e := range s.All() {
		if e.Type() != pcommon.ValueTypeStr {
			return false
		}
	}
	return true
}

// textOf is the library's text of a value, so that hashes agree; only arrays and maps are
// written as OTLP's JSON.
func textOf(v pcommon.Value) string {
	if v.Type() == pcommon.ValueTypeDouble {
		return attribute.Float64Value(v.Double()).String()
	}
	return v.AsString()
}
