package store

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/zeebo/xxh3"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"
)

// attributeMatch is a condition on an attribute, whose value is compared as
// text: a string 200, an integer 200 and a double 200 are all "200".
type attributeMatch struct {
	key, text string
	// Every way in which a value with this text is encoded, unless others is set.
	encodings [][]byte
	hashes    []uint64
	// The text may be that of an array, a map or a NaN, which have too many
	// encodings; then values are decoded.
	others bool
}

// newAttributeMatch encodes the candidates with the official encoder, because
// what is stored was encoded by it.
func newAttributeMatch(key, text string) (*attributeMatch, error) {
	m := &attributeMatch{key: key, text: text}
	add := func(set func(v pcommon.Value)) error {
		td := ptrace.NewTraces()
		v := td.ResourceSpans().AppendEmpty().Resource().Attributes().PutEmpty(key)
		set(v)
		if v.AsString() != text {
			return nil // 0200 is no integer, 2e2 no double of this text
		}
		data, err := encode(td)
		if err != nil {
			return err
		}
		return eachAttribute(data, func(kv []byte) {
			m.encodings = append(m.encodings, kv)
			m.hashes = append(m.hashes, xxh3.Hash(kv))
		})
	}
	sets := []func(pcommon.Value){func(v pcommon.Value) { v.SetStr(text) }}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		sets = append(sets, func(v pcommon.Value) { v.SetInt(i) })
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		sets = append(sets, func(v pcommon.Value) { v.SetDouble(f) })
		m.others = f != f
	}
	if is, err := strconv.ParseBool(text); err == nil {
		sets = append(sets, func(v pcommon.Value) { v.SetBool(is) })
	}
	if b, err := base64.StdEncoding.DecodeString(text); err == nil {
		sets = append(sets, func(v pcommon.Value) { v.SetEmptyBytes().FromRaw(b) })
	}
	if text == "" {
		sets = append(sets, func(pcommon.Value) {})
	} else {
		m.others = m.others || text[0] == '[' || text[0] == '{'
	}
	for _, set := range sets {
		if err := add(set); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// eachAttribute calls f for the attributes of the resources in a TracesData.
func eachAttribute(data []byte, f func(kv []byte)) error {
	return eachField(data, func(num protowire.Number, _ uint64, rs, _ []byte) error {
		if num != fieldTracesResource {
			return nil
		}
		return eachField(rs, func(num protowire.Number, _ uint64, resource, _ []byte) error {
			if num != fieldResource {
				return nil
			}
			return eachField(resource, func(num protowire.Number, _ uint64, kv, _ []byte) error {
				if num == fieldResourceAttr {
					f(kv)
				}
				return nil
			})
		})
	})
}

// mayBeIn reports whether something in a block with the filter may match.
func (m *attributeMatch) mayBeIn(f filter) bool {
	for _, h := range m.hashes {
		if f.has(h) {
			return true
		}
	}
	return m.others
}

// matches reports whether the encoded KeyValue is what is asked for.
func (m *attributeMatch) matches(kv []byte) bool {
	for _, e := range m.encodings {
		if bytes.Equal(e, kv) {
			return true
		}
	}
	if !m.others {
		return false
	}
	key, _, err := keyValue(kv)
	return err == nil && string(key) == m.key && textOf(kv) == m.text
}

// textOf is the value of an encoded KeyValue as text.
func textOf(kv []byte) string {
	resource := protowire.AppendBytes(protowire.AppendTag(nil, fieldResourceAttr, protowire.BytesType), kv)
	rs := protowire.AppendBytes(protowire.AppendTag(nil, fieldResource, protowire.BytesType), resource)
	data := protowire.AppendBytes(protowire.AppendTag(nil, fieldTracesResource, protowire.BytesType), rs)
	var m ptrace.ProtoUnmarshaler
	td, err := m.UnmarshalTraces(data)
	if err != nil {
		return ""
	}
	text := ""
	for _, v := range td.ResourceSpans().At(0).Resource().Attributes().All() {
		text = v.AsString()
	}
	return text
}

// attributeMatches finds the spans of a record whose own attributes, or their
// resource's, meet every condition, and calls f with their index until it
// returns true.
func attributeMatches(conditions []*attributeMatch, groups []group, record []byte, f func(i int) bool) (bool, error) {
	i, found := 0, false
	met := make([]bool, len(conditions))
	byResource := make([]bool, len(conditions))
	mark := func(to []bool, field protowire.Number, message []byte) error {
		return eachField(message, func(num protowire.Number, _ uint64, kv, _ []byte) error {
			if num == field {
				for n, m := range conditions {
					to[n] = to[n] || m.matches(kv)
				}
			}
			return nil
		})
	}
	err := eachRun(record, groups, func(g uint32, spans []byte) error {
		clear(byResource)
		err := eachField(groups[g].resource, func(num protowire.Number, _ uint64, resource, _ []byte) error {
			if num != fieldResource {
				return nil
			}
			return mark(byResource, fieldResourceAttr, resource)
		})
		if err != nil {
			return err
		}
		return eachField(spans, func(num protowire.Number, _ uint64, value, _ []byte) error {
			if num != fieldScopeSpan {
				return nil
			}
			n := i
			i++
			if found {
				return nil
			}
			copy(met, byResource)
			if err := mark(met, fieldSpanAttr, value); err != nil {
				return err
			}
			for _, is := range met {
				if !is {
					return nil
				}
			}
			found = f(n)
			return nil
		})
	})
	return found, err
}
