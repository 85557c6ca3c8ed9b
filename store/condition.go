package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/otel/wire"
)

// Condition is one on an attribute of a span or of its resource. The keys that the
// semantic conventions give to what is not an attribute in OTLP (otel.scope.name,
// otel.scope.version, otel.status_code, otel.status_description) and w3c.tracestate
// also stand for that.
type Condition struct {
	Key   string
	Also  string // another name of the same attribute, "": none
	Op    Op
	Value string
}

// Op is how a condition compares. Like and the comparisons have no index of the store
// to use, so that they read every span that meets the other conditions.
type Op string

// The values of Op. NotEqual is met by spans that have the attribute. Less and the
// following compare numbers, also those that are written in a text.
const (
	Equal    Op = "="
	Like     Op = "~" // * is any text; \* is a star, \\ a backslash
	NotEqual Op = "!="
	Less     Op = "<"
	AtMost   Op = "<="
	More     Op = ">"
	AtLeast  Op = ">="
)

// ParseCondition reads key=value, key!=value, key<number, key<=number, key>number or
// key>=number. A value with a * is a pattern.
func ParseCondition(text string) (Condition, error) {
	at := strings.IndexAny(text, "=!<>")
	if at <= 0 {
		return Condition{}, fmt.Errorf("%w: %s has no key or no comparison", ErrInvalid, clip([]byte(text)))
	}
	c := Condition{Key: text[:at], Op: Op(text[at : at+1])}
	if rest := text[at+1:]; c.Op != Equal && strings.HasPrefix(rest, "=") {
		c.Op, c.Value = c.Op+"=", rest[1:]
	} else {
		c.Value = rest
	}
	switch c.Op {
	case Equal:
		if strings.Contains(c.Value, "*") {
			c.Op = Like
		}
	case NotEqual:
	case "!":
		return Condition{}, fmt.Errorf("%w: %s: a ! stands before =", ErrInvalid, clip([]byte(text)))
	default:
		if _, err := strconv.ParseFloat(c.Value, 64); err != nil {
			return Condition{}, fmt.Errorf("%w: %s: %s compares with a number", ErrInvalid, clip([]byte(text)), c.Op)
		}
	}
	return c, nil
}

// field is what of a span or its scope a key stands for; 0: only attributes.
type field uint8

const (
	fieldScopeName field = iota + 1
	fieldScopeVersion
	fieldStatusCode
	fieldStatusMessage
	fieldTraceState
)

func fieldOf(key string) field {
	switch key {
	case "otel.scope.name":
		return fieldScopeName
	case "otel.scope.version":
		return fieldScopeVersion
	case "otel.status_code":
		return fieldStatusCode
	case "otel.status_description":
		return fieldStatusMessage
	case "w3c.tracestate":
		return fieldTraceState
	}
	return 0
}

// ofScope reports whether the group's scope meets the condition.
func (m *attributeMatch) ofScope(scope []byte) (met bool, err error) {
	tag := uint64(wire.ScopeName)
	switch m.field {
	case fieldScopeVersion:
		tag = wire.ScopeVersion
	case fieldScopeName:
	default:
		return false, nil
	}
	err = eachAlong(scope, func(v []byte) error {
		met = met || len(v) > 0 && m.compare(string(v), 0, false)
		return nil
	}, wire.ScopeSpansScope, tag)
	return met, err
}

// ofSpan reports whether a field of the span that is no attribute meets the condition.
func (m *attributeMatch) ofSpan(span []byte) (met bool, err error) {
	switch m.field {
	case fieldTraceState:
		err = eachAlong(span, func(v []byte) error {
			met = len(v) > 0 && m.compare(string(v), 0, false)
			return nil
		}, wire.SpanTraceState)
	case fieldStatusMessage:
		err = eachAlong(span, func(v []byte) error {
			met = len(v) > 0 && m.compare(string(v), 0, false)
			return nil
		}, wire.SpanStatus, wire.StatusMessage)
	case fieldStatusCode:
		err = eachAlong(span, func(status []byte) error {
			return eachField(status, func(tag, v uint64, _, _ []byte) error {
				if tag == wire.StatusCode {
					met = v == wire.StatusError && m.compare("ERROR", 0, false) || v == wire.StatusOK && m.compare("OK", 0, false)
				}
				return nil
			})
		}, wire.SpanStatus)
	}
	return met, err
}

// compare reports whether a value meets the condition; number is what it is, if it is
// one.
func (m *attributeMatch) compare(text string, number float64, isNumber bool) bool {
	switch m.op {
	case Equal:
		return text == m.text
	case NotEqual:
		return text != m.text
	case Like:
		return like(m.parts, text)
	}
	if !isNumber {
		var err error
		if number, err = strconv.ParseFloat(text, 64); err != nil {
			return false
		}
	}
	switch m.op {
	case Less:
		return number < m.number
	case AtMost:
		return number <= m.number
	case More:
		return number > m.number
	case AtLeast:
		return number >= m.number
	}
	return false
}

// meets compares an encoded KeyValue without an encoder, where it is a text or a
// number.
func (m *attributeMatch) meets(kv, value []byte) bool {
	num, typ, n := protowire.ConsumeTag(value)
	if n > 0 {
		switch protowire.EncodeTag(num, typ) {
		case wire.AnyValueString:
			return m.compare(stringValue(value), 0, false)
		case wire.AnyValueInt:
			if v, k := protowire.ConsumeVarint(value[n:]); k > 0 {
				return m.compare(strconv.FormatInt(int64(v), 10), float64(int64(v)), true)
			}
		case wire.AnyValueDouble:
			if len(value) >= n+8 {
				f := math.Float64frombits(binary.LittleEndian.Uint64(value[n:]))
				if m.op != Equal && m.op != NotEqual && m.op != Like {
					return m.compare("", f, true)
				}
			}
		}
	}
	return m.compare(textOf(kv), 0, false)
}

// pattern splits a pattern at its stars.
func pattern(text string) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '*':
			parts = append(parts, "")
			continue
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
		}
		parts[len(parts)-1] += text[i : i+1]
	}
	return parts
}

// like reports whether the text is made of the parts in their order, with anything
// between them.
func like(parts []string, text string) bool {
	last := len(parts) - 1
	if last == 0 {
		return text == parts[0]
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1:last] {
		at := strings.Index(text, p)
		if at < 0 {
			return false
		}
		text = text[at+len(p):]
	}
	return strings.HasSuffix(text, parts[last])
}
