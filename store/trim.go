package store

import (
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/otel/wire"
	spantext "github.com/tare-trace/tare/span/text"
)

// Part selects what [Store.FindPart] reads of a trace's spans.
type Part struct {
	// Keys are those attributes of a span that are read, and no events and links; nil: all are.
	Keys func(key string) bool
	// All: the others are read, too, as long as there is memory for them ([Cut.Short]).
	All bool
	// Whole is a span of which all is read nonetheless.
	Whole pcommon.SpanID

	exact bool // nothing is cut of a span
}

// Cut counts what of a trace is stored and is not read: it would take too much memory ([WithAsk]), or is longer than
// anything needs to be. Texts have the bounds, and the marks, of package text.
type Cut struct {
	Spans  int // left out
	Short  int // spans without the attributes that are not in Part.Keys, though Part.All asks for them
	Fields int // attributes, events and links that are left out of spans
	Texts  int // that are cut
}

// Any reports whether anything is cut.
func (c Cut) Any() bool { return c != Cut{} }

// Bounds of what is read of one span, or of one resource.
const (
	maxFields    = 1000    // attributes; events; links; attributes of one of these
	maxSpanBytes = 1 << 20 // beyond it no further attributes, events and links
)

// trimmer copies encoded spans without what is too much.
type trimmer struct {
	part   Part
	budget int64 // bytes of spans and resources, and spanCost for each span
	whole  int64 // of it, for spans with all of their attributes
	used   int64
	cut    *Cut
	buf    []byte
}

// newTrimmer trims to a budget; fits: all spans are within it.
func newTrimmer(part Part, budget int64, fits bool, cut *Cut) *trimmer {
	t := &trimmer{part: part, budget: budget, whole: budget, cut: cut}
	if fits {
		t.budget, t.whole = math.MaxInt64, math.MaxInt64
	} else if part.All {
		t.whole = budget / 2 // so that there is room for the others without their attributes
	}
	return t
}

// run trims the spans of a run. The result is valid until the next call.
func (t *trimmer) run(run []byte) ([]byte, error) {
	t.buf = t.buf[:0]
	err := eachSpan(run, func(span, whole []byte) error {
		before := len(t.buf)
		wanted := false
		if !t.part.Whole.IsEmpty() {
			id, _ := idsOf(span)
			wanted = id == t.part.Whole
		}
		slim := t.part.Keys != nil && !wanted
		switch {
		case wanted:
		case t.used >= t.budget:
			t.cut.Spans++
			return nil
		case slim && t.part.All:
			if slim = t.used >= t.whole; slim {
				t.cut.Short++
			}
		}
		if t.part.exact || !slim && len(span) <= spantext.MaxKey {
			t.buf = append(t.buf, whole...)
		} else {
			m := trimmed{trimmer: t, slim: slim}
			if err := m.span(span); err != nil {
				return err
			}
			t.buf = wire.AppendBytes(t.buf, wire.ScopeSpansSpan, m.b)
		}
		t.used += int64(len(t.buf)-before) + spanCost
		return nil
	})
	return t.buf, err
}

// resource trims a ResourceSpans without scopes.
func (t *trimmer) resource(b []byte) ([]byte, error) {
	return t.outer(b, wire.ResourceSpansResource, wire.ResourceAttribute)
}

// scope trims a ScopeSpans without spans.
func (t *trimmer) scope(b []byte) ([]byte, error) {
	return t.outer(b, wire.ScopeSpansScope, wire.ScopeAttribute)
}

func (t *trimmer) outer(b []byte, inner, attribute uint64) ([]byte, error) {
	defer func() { t.used += int64(len(b)) }()
	if t.part.exact || len(b) <= spantext.MaxKey {
		return b, nil
	}
	out := trimmed{trimmer: t}
	err := eachField(b, func(tag, _ uint64, content, whole []byte) error {
		switch tag {
		case inner:
			m := trimmed{trimmer: t}
			if err := m.message(content, attribute); err != nil {
				return err
			}
			out.b = wire.AppendBytes(out.b, byte(inner), m.b)
		case wire.SchemaURL:
			out.name(wire.SchemaURL, content, spantext.MostName)
		default:
			out.b = append(out.b, whole...)
		}
		return nil
	})
	b = out.b
	return b, err
}

// trimmed is a message that is being copied.
type trimmed struct {
	*trimmer
	b       []byte
	slim    bool
	n       [3]int    // attributes, events, links
	dropped [3]uint64 // of them, by the sender or here
}

// room reports whether one more field fits.
func (m *trimmed) room(kind int) bool {
	if m.n[kind] < maxFields && len(m.b) < maxSpanBytes {
		m.n[kind]++
		return true
	}
	m.dropped[kind]++
	m.cut.Fields++
	return false
}

func (m *trimmed) span(b []byte) error {
	err := eachField(b, func(tag, v uint64, content, whole []byte) error {
		switch tag {
		case wire.SpanName:
			m.name(wire.SpanName, content, spantext.MostName)
		case wire.SpanTraceState:
			if len(content) > spantext.MaxState { // a part of it means something else
				m.cut.Texts++
				return nil
			}
			m.b = append(m.b, whole...)
		case wire.SpanAttribute:
			return m.attribute(wire.SpanAttribute, content)
		case wire.SpanEvent, wire.SpanLink:
			kind, attribute := 1, uint64(wire.EventAttribute)
			if tag == wire.SpanLink {
				kind, attribute = 2, wire.LinkAttribute
			}
			if m.slim || !m.room(kind) {
				return nil
			}
			if len(content) <= spantext.MaxKey {
				m.b = append(m.b, whole...)
				return nil
			}
			inner := trimmed{trimmer: m.trimmer}
			if err := inner.message(content, attribute); err != nil {
				return err
			}
			m.b = wire.AppendBytes(m.b, byte(tag), inner.b) //nolint:gosec // of one byte
		case wire.SpanDroppedAttributes:
			m.dropped[0] += v
		case wire.SpanDroppedEvents:
			m.dropped[1] += v
		case wire.SpanDroppedLinks:
			m.dropped[2] += v
		case wire.SpanStatus:
			if len(content) <= spantext.MaxValue {
				m.b = append(m.b, whole...)
				return nil
			}
			inner := trimmed{trimmer: m.trimmer}
			err := eachField(content, func(tag, _ uint64, content, whole []byte) error {
				if tag == wire.StatusMessage {
					inner.value(wire.StatusMessage, content)
				} else {
					inner.b = append(inner.b, whole...)
				}
				return nil
			})
			m.b = wire.AppendBytes(m.b, wire.SpanStatus, inner.b)
			return err
		default:
			m.b = append(m.b, whole...)
		}
		return nil
	})
	for kind, tag := range [...]byte{wire.SpanDroppedAttributes, wire.SpanDroppedEvents, wire.SpanDroppedLinks} {
		if n := m.dropped[kind]; n > 0 {
			m.b = wire.AppendVarint(m.b, tag, min(n, 1<<32-1))
		}
	}
	return err
}

// message copies a message of attributes and short texts: an event, a link, a resource, a scope.
func (m *trimmed) message(b []byte, attribute uint64) error {
	return eachField(b, func(tag, _ uint64, content, whole []byte) error {
		switch {
		case tag == attribute:
			return m.attribute(byte(attribute), content)
		case len(content) > spantext.MostName:
			m.name(byte(tag), content, spantext.MostName) //nolint:gosec // these messages have no tags of two bytes with a length
		default:
			m.b = append(m.b, whole...)
		}
		return nil
	})
}

func (m *trimmed) attribute(tag byte, kv []byte) error {
	short := len(kv) <= spantext.MaxKey
	if short && !m.slim {
		if m.room(0) {
			m.b = wire.AppendBytes(m.b, tag, kv)
		}
		return nil
	}
	key, value, err := keyValue(kv)
	if err != nil || m.slim && !m.part.Keys(string(key)) || !m.room(0) {
		return err
	}
	if short {
		m.b = wire.AppendBytes(m.b, tag, kv)
		return nil
	}
	most := spantext.MaxValue
	named := isName(string(key))
	if named { // so that it is the same as in lists
		most = spantext.MostName
	}
	if len(value) > most {
		inner := trimmed{trimmer: m.trimmer}
		err = eachField(value, func(tag, _ uint64, content, whole []byte) error {
			switch {
			case len(content) <= most:
				inner.b = append(inner.b, whole...)
			case tag == wire.AnyValueString && named:
				inner.name(wire.AnyValueString, content, most)
			case tag == wire.AnyValueString:
				inner.value(wire.AnyValueString, content)
			default: // a part of a list, or of bytes, would be taken for all of it
				m.cut.Texts++
				inner.b = wire.AppendBytes(inner.b, wire.AnyValueString, fmt.Sprintf("…[+%d bytes]", len(content)))
			}
			return nil
		})
		value = inner.b
	}
	name := string(key)
	if len(key) > spantext.MaxKey {
		m.cut.Texts++
		name = spantext.Name(name, spantext.MaxKey)
	}
	content := wire.AppendBytes(wire.AppendBytes(nil, wire.KeyValueKey, name), wire.KeyValueValue, value)
	m.b = wire.AppendBytes(m.b, tag, content)
	return err
}

// isName reports whether the value of an attribute is a name, as for who cuts what arrives.
func isName(key string) bool {
	return key == "service.name" || key == "service.namespace" || key == "service.instance.id"
}

// name appends a name.
func (m *trimmed) name(tag byte, b []byte, most int) {
	if len(b) > most {
		m.cut.Texts++
		m.b = wire.AppendBytes(m.b, tag, spantext.Name(string(b), most))
		return
	}
	m.b = wire.AppendBytes(m.b, tag, b)
}

// value appends a text that is too long.
func (m *trimmed) value(tag byte, b []byte) {
	if len(b) <= spantext.MaxValue {
		m.b = wire.AppendBytes(m.b, tag, b)
		return
	}
	m.cut.Texts++
	m.b = wire.AppendBytes(m.b, tag, spantext.Value(string(b), spantext.MaxValue))
}
