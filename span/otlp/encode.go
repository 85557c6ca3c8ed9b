package otlp

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/span"
)

// AppendResourceSpans appends the content of one OTLP ResourceSpans message:
// the resource (none if res is nil), one scope, and the spans. It does not
// read the spans' own Resource; grouping is the caller's.
func AppendResourceSpans(dst []byte, res *span.Resource, scopeName, scopeVersion string, spans []*span.Span) []byte {
	// 16 KiB is where a length grows from two bytes to three; a span takes
	// some 300 bytes. A wrong guess costs a move.
	reserve := 3
	if len(spans) < 50 {
		reserve = 2
	}
	dst = appendResource(dst, res)
	dst, content := openField(dst, tagScopeSpans, reserve)
	dst = appendScope(dst, utf8Text(scopeName), utf8Text(scopeVersion))
	for _, s := range spans {
		dst = AppendSpan(dst, s)
	}
	return closeField(dst, content, reserve)
}

// AppendHeader appends what AppendResourceSpans puts before the spans, for
// callers that hold spans encoded by AppendSpan: exactly spansLen bytes of
// them must follow.
func AppendHeader(dst []byte, res *span.Resource, scopeName, scopeVersion string, spansLen int) []byte {
	scopeName, scopeVersion = utf8Text(scopeName), utf8Text(scopeVersion)
	dst = appendResource(dst, res)
	dst = append(dst, tagScopeSpans)
	dst = appendLen(dst, sizeScope(scopeName, scopeVersion)+spansLen)
	return appendScope(dst, scopeName, scopeVersion)
}

func appendResource(dst []byte, res *span.Resource) []byte {
	if res == nil {
		return dst
	}
	dst, content := openField(dst, tagResource, 2)
	if res.Service != "" {
		dst = appendAttr(dst, tagResourceAttr, serviceName, &span.Attr{Key: serviceName, Str: res.Service})
	}
	for i := range res.Attrs {
		dst = appendAttr(dst, tagResourceAttr, utf8Text(res.Attrs[i].Key), &res.Attrs[i])
	}
	return closeField(dst, content, 2)
}

func sizeScope(name, version string) int {
	if name == "" && version == "" {
		return 0
	}
	return sizeField(sizeString(name) + sizeString(version))
}

func appendScope(dst []byte, name, version string) []byte {
	if name == "" && version == "" {
		return dst
	}
	dst = append(dst, tagScope)
	dst = appendLen(dst, sizeString(name)+sizeString(version))
	dst = appendString(dst, tagScopeName, name)
	return appendString(dst, tagScopeVersion, version)
}

// AppendSpan appends one span as an entry of ScopeSpans.spans, tag and length
// included. It does not allocate, except to grow dst and to repair text that
// is not UTF-8. The span is not kept.
func AppendSpan(dst []byte, s *span.Span) []byte {
	const reserve = 2 // bytes of length: 128 … 16,383 is nearly every span
	dst, content := openField(dst, tagSpan, reserve)

	dst = append(dst, tagTraceID, byte(len(s.TraceID)))
	dst = append(dst, s.TraceID[:]...)
	dst = append(dst, tagSpanID, byte(len(s.ID)))
	dst = append(dst, s.ID[:]...)
	dst = appendString(dst, tagTraceState, utf8Text(s.TraceState))
	if !s.Parent.IsZero() {
		dst = append(dst, tagParent, byte(len(s.Parent)))
		dst = append(dst, s.Parent[:]...)
	}
	dst = appendString(dst, tagName, utf8Text(s.Name))
	if s.Kind != 0 {
		dst = append(dst, tagKind)
		dst = appendLen(dst, int(s.Kind))
	}
	if s.Start != 0 {
		dst = append(dst, tagStart)
		dst = protowire.AppendFixed64(dst, s.Start)
	}
	if s.End != 0 {
		dst = append(dst, tagEnd)
		dst = protowire.AppendFixed64(dst, s.End)
	}
	for i := range s.Attrs {
		dst = appendAttr(dst, tagAttr, s.Attrs[i].Key, &s.Attrs[i])
	}
	if s.Status != span.Unset {
		dst = append(dst, tagStatus, byte(1+sizeLen(int(s.Status))), tagStatusCode)
		dst = appendLen(dst, int(s.Status))
	}
	dst = append(dst, tagFlags&0x7f|0x80, tagFlags>>7)
	dst = protowire.AppendFixed32(dst, flags(s))
	return closeField(dst, content, reserve)
}

// flags are those of a sampled span (nothing else reaches an encoder). The
// parent of a server span is the client's on the other side of a connection;
// every other parent is a span of the same service.
func flags(s *span.Span) uint32 {
	f := uint32(flagSampled | flagHasIsRemote)
	if s.Kind == span.Server && !s.Parent.IsZero() {
		f |= flagIsRemote
	}
	return f
}

// appendAttr appends a KeyValue field. The value is a oneof: it is written
// even if it is empty, 0 or false. key must be UTF-8: those of spans are the
// code's own, and checking each of them again is a fifth of the cost.
func appendAttr(dst []byte, tag byte, key string, a *span.Attr) []byte {
	keyLen := sizeString(key)
	switch a.Type {
	case span.IntType:
		valueLen := 1 + protowire.SizeVarint(uint64(a.Num))
		dst = append(dst, tag)
		dst = appendLen(dst, keyLen+sizeField(valueLen))
		dst = appendString(dst, tagKey, key)
		dst = append(dst, tagValue, byte(valueLen), tagInt)
		return protowire.AppendVarint(dst, uint64(a.Num))
	case span.BoolType:
		dst = append(dst, tag)
		dst = appendLen(dst, keyLen+sizeField(2))
		dst = appendString(dst, tagKey, key)
		var b byte
		if a.Num != 0 {
			b = 1
		}
		return append(dst, tagValue, 2, tagBool, b)
	default:
		str := utf8Text(a.Str)
		valueLen := sizeField(len(str))
		dst = append(dst, tag)
		dst = appendLen(dst, keyLen+sizeField(valueLen))
		dst = appendString(dst, tagKey, key)
		dst = append(dst, tagValue)
		dst = appendLen(dst, valueLen)
		dst = append(dst, tagString)
		dst = appendLen(dst, len(str))
		return append(dst, str...)
	}
}
