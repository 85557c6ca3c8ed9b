package store

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/wire"
)

// attributeMatch is a condition on an attribute, whose value is compared as
// text: a string 200, an integer 200 and a double 200 are all "200".
type attributeMatch struct {
	keys   []string
	op     Op
	text   string
	number float64  // of a comparison of numbers
	parts  []string // of a pattern
	field  field
	// Every way in which a value that meets the condition is encoded, unless
	// others is set.
	encodings [][]byte
	hashes    []uint64
	// Too many encodings meet the condition: that of an array, a map or a NaN, all
	// but one, a pattern. Then values are decoded.
	others bool
}

func newAttributeMatch(c Condition) (*attributeMatch, error) {
	m := &attributeMatch{keys: []string{c.Key}, op: c.Op, text: c.Value, field: fieldOf(c.Key)}
	if c.Also != "" {
		m.keys = append(m.keys, c.Also)
	}
	m.others = m.field != 0
	var err error
	switch c.Op {
	case "":
		m.op = Equal
	case Equal:
	case NotEqual:
		m.others = true
	case Like:
		m.others, m.parts = true, pattern(c.Value)
	case Less, AtMost, More, AtLeast:
		m.others = true
		if m.number, err = strconv.ParseFloat(c.Value, 64); err != nil {
			return nil, fmt.Errorf("%w: %s %s %s: a comparison with what is no number", ErrInvalid, c.Key, c.Op, clip([]byte(c.Value)))
		}
	default:
		return nil, fmt.Errorf("%w: there is no comparison %s", ErrInvalid, clip([]byte(c.Op)))
	}
	if m.op != Equal {
		return m, nil
	}
	for _, key := range m.keys {
		if err := m.encode(key, c.Value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// encode encodes the candidates with the official encoder, because what is stored
// was encoded by it.
func (m *attributeMatch) encode(key, text string) error {
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
		m.others = m.others || f != f
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
			return err
		}
	}
	return nil
}

// eachAttribute calls f for the attributes of the resources in a TracesData.
func eachAttribute(data []byte, f func(kv []byte)) error {
	return eachAlong(data, func(kv []byte) error {
		f(kv)
		return nil
	}, wire.TracesResourceSpans, wire.ResourceSpansResource, wire.ResourceAttribute)
}

// narrow unmarks the blocks of the chunk in which nothing matches, and reports
// whether any is left.
func (m *attributeMatch) narrow(c *chunkData, blocks []bool) (bool, error) {
	if m.others {
		return true, nil
	}
	some := false
	var err error
	filters := make([][]filter, len(m.hashes))
	for i, h := range m.hashes {
		if filters[i], err = c.blockFilters(filterPart(h)); err != nil {
			return false, err
		}
	}
	for b, may := range blocks {
		if !may {
			continue
		}
		may = false
		for i, h := range m.hashes {
			may = may || filters[i][b].has(h)
		}
		blocks[b] = may
		some = some || may
	}
	return some, nil
}

// mayMatch reports whether an attribute of the record, or of one of its
// resources, may match. It is much cheaper than to split all of them.
func (m *attributeMatch) mayMatch(record []byte, groups []group) (bool, error) {
	if m.field != 0 {
		return true, nil
	}
	may := func(b []byte) bool {
		if m.others {
			return slices.ContainsFunc(m.keys, func(k string) bool { return bytes.Contains(b, []byte(k)) })
		}
		return slices.ContainsFunc(m.encodings, func(e []byte) bool { return bytes.Contains(b, e) })
	}
	found := may(record)
	if found {
		return true, nil
	}
	err := eachRun(record, groups, func(g uint32, _ []byte) error {
		found = found || may(groups[g].resource)
		return nil
	})
	return found, err
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
	key, value, err := keyValue(kv)
	return err == nil && slices.Contains(m.keys, text(key)) && m.meets(kv, value)
}

// textOf is the value of an encoded KeyValue as text.
func textOf(kv []byte) string {
	data := kv
	for _, tag := range []byte{wire.ResourceAttribute, wire.ResourceSpansResource, wire.TracesResourceSpans} {
		data = wire.AppendBytes(nil, tag, data)
	}
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
	for _, m := range conditions {
		if may, err := m.mayMatch(record, groups); err != nil || !may {
			return false, err
		}
	}
	i, found := 0, false
	met := make([]bool, len(conditions))
	byResource := make([]bool, len(conditions))
	mark := func(to []bool, message []byte, tags ...uint64) error {
		return eachAlong(message, func(kv []byte) error {
			for n, m := range conditions {
				to[n] = to[n] || m.matches(kv)
			}
			return nil
		}, tags...)
	}
	err := eachRun(record, groups, func(g uint32, spans []byte) error {
		clear(byResource)
		if err := mark(byResource, groups[g].resource, wire.ResourceSpansResource, wire.ResourceAttribute); err != nil {
			return err
		}
		for n, m := range conditions {
			met, err := m.ofScope(groups[g].scope)
			if err != nil {
				return err
			}
			byResource[n] = byResource[n] || met
		}
		return eachAlong(spans, func(value []byte) error {
			n := i
			i++
			if found {
				return nil
			}
			copy(met, byResource)
			if err := mark(met, value, wire.SpanAttribute); err != nil {
				return err
			}
			for n, is := range met {
				if is {
					continue
				}
				if is, err := conditions[n].ofSpan(value); err != nil || !is {
					return err
				}
			}
			found = f(n)
			return nil
		}, wire.ScopeSpansSpan)
	})
	return found, err
}
