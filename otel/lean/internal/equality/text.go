package equality

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// lines is a message as one line per field that is present, "path: value", in the order of the field
// numbers. Whatever OTLP has or will have is in it: it goes by the descriptor.
func lines(path string, m proto.Message) []string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	return messageLines(nil, path, m.ProtoReflect())
}

func messageLines(out []string, path string, m protoreflect.Message) []string {
	before := len(out)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		name, v := path+"."+string(f.Name()), m.Get(f)
		if !f.IsList() {
			out = valueLines(out, name, f, v)
			continue
		}
		for j := range v.List().Len() {
			out = valueLines(out, fmt.Sprintf("%s[%d]", name, j), f, v.List().Get(j))
		}
	}
	if u := m.GetUnknown(); len(u) > 0 {
		out = append(out, fmt.Sprintf("%s: unknown fields %x", path, []byte(u)))
	}
	if len(out) == before {
		out = append(out, path+": present, empty")
	}
	return out
}

func valueLines(out []string, path string, f protoreflect.FieldDescriptor, v protoreflect.Value) []string {
	switch {
	case f.Message() != nil:
		return messageLines(out, path, v.Message())
	case f.Kind() == protoreflect.BytesKind:
		return append(out, path+": "+bytesText(v.Bytes()))
	case f.Kind() == protoreflect.StringKind:
		return append(out, fmt.Sprintf("%s: %q", path, v.String()))
	case f.Kind() == protoreflect.DoubleKind:
		return append(out, fmt.Sprintf("%s: %g (bits %x)", path, v.Float(), math.Float64bits(v.Float())))
	case f.Kind() == protoreflect.EnumKind:
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			return append(out, fmt.Sprintf("%s: %s", path, known.Name()))
		}
	case f.Kind() == protoreflect.Fixed64Kind && v.Uint() == byClock:
		return append(out, path+": by the clock")
	}
	return append(out, fmt.Sprintf("%s: %v", path, v.Interface()))
}

// bytesText shows an id in hex and the place that replaced it as it is.
func bytesText(b []byte) string {
	if len(b) > 0 && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return fmt.Sprintf("<%s>", b)
	}
	return fmt.Sprintf("%x", b)
}

// text is all of a span.
func (s *Span) text() []string {
	out := lines("span", s.Span)
	out = append(out, lines("scope", s.Scope)...)
	out = append(out, lines("resource", s.Resource)...)
	return append(out, fmt.Sprintf("scope schema: %q", s.ScopeSchema), fmt.Sprintf("resource schema: %q", s.ResourceSchema))
}
