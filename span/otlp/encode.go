package otlp

import (
	"encoding/binary"
	"slices"

	"github.com/tare-trace/tare/otel/wire"
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
	dst, content := wire.Open(dst, wire.ResourceSpansScope, reserve)
	dst = appendScope(dst, wire.Text(scopeName), wire.Text(scopeVersion))
	for _, s := range spans {
		dst = AppendSpan(dst, s)
	}
	return wire.Close(dst, content, reserve)
}

// AppendHeader appends what AppendResourceSpans puts before the spans, for
// callers that hold spans encoded by AppendSpan: exactly spansLen bytes of
// them must follow.
func AppendHeader(dst []byte, res *span.Resource, scopeName, scopeVersion string, spansLen int) []byte {
	scopeName, scopeVersion = wire.Text(scopeName), wire.Text(scopeVersion)
	dst = appendResource(dst, res)
	dst = wire.AppendHead(dst, wire.ResourceSpansScope, sizeScope(scopeName, scopeVersion)+spansLen)
	return appendScope(dst, scopeName, scopeVersion)
}

func appendResource(dst []byte, res *span.Resource) []byte {
	if res == nil {
		return dst
	}
	dst, content := wire.Open(dst, wire.ResourceSpansResource, 2)
	if res.Service != "" {
		dst = appendAttr(dst, wire.ResourceAttribute, serviceName, &span.Attr{Key: serviceName, Str: res.Service}, false)
	}
	for i := range res.Attrs {
		dst = appendAttr(dst, wire.ResourceAttribute, wire.Text(res.Attrs[i].Key), &res.Attrs[i], false)
	}
	return wire.Close(dst, content, 2)
}

func sizeScope(name, version string) int {
	if name == "" && version == "" {
		return 0
	}
	return wire.SizeField(sizeString(name) + sizeString(version))
}

func appendScope(dst []byte, name, version string) []byte {
	if name == "" && version == "" {
		return dst
	}
	dst = wire.AppendHead(dst, wire.ScopeSpansScope, sizeString(name)+sizeString(version))
	dst = appendString(dst, wire.ScopeName, name)
	return appendString(dst, wire.ScopeVersion, version)
}

// NewPrefix encodes attributes for [span.Span.Prefix]. Their text must be UTF-8.
func NewPrefix(attrs []span.Attr) *span.Prefix {
	p := &span.Prefix{Attrs: attrs}
	for i := range attrs {
		p.OTLP = appendAttr(p.OTLP, wire.SpanAttribute, attrs[i].Key, &attrs[i], true)
	}
	return p
}

// What nearly every span has, in fields of a fixed size: tags, lengths and values stand at
// fixed places.
const (
	idsSize   = 2 + len(span.TraceID{}) + 2 + len(span.ID{})
	timesSize = 2 + 9 + 9
	flagsSize = 2 + 4
)

// AppendSpan appends one span as an entry of ScopeSpans.spans, tag and length
// included. It does not allocate, except to grow dst and to repair text that
// is not UTF-8. The span is not kept.
func AppendSpan(dst []byte, s *span.Span) []byte {
	const reserve = 2 // bytes of length: 128 … 16,383 is nearly every span
	dst, content := wire.Open(dst, wire.ScopeSpansSpan, reserve)

	dst = slices.Grow(dst, idsSize)[:len(dst)+idsSize]
	ids := (*[idsSize]byte)(dst[len(dst)-idsSize:])
	ids[0], ids[1] = wire.SpanTraceID, byte(len(s.TraceID))
	*(*span.TraceID)(ids[2:18]) = s.TraceID
	ids[18], ids[19] = wire.SpanID, byte(len(s.ID))
	*(*span.ID)(ids[20:28]) = s.ID
	if s.TraceState != "" {
		dst = appendString(dst, wire.SpanTraceState, text(s.TraceState, s.UTF8))
	}
	if !s.Parent.IsZero() {
		dst = binary.NativeEndian.AppendUint64(append(dst, wire.SpanParentID, byte(len(s.Parent))), binary.NativeEndian.Uint64(s.Parent[:]))
	}
	dst = appendString(dst, wire.SpanName, text(s.Name, s.UTF8))
	if s.Kind != 0 && s.Kind < 0x80 && s.Start != 0 && s.End != 0 {
		dst = slices.Grow(dst, timesSize)[:len(dst)+timesSize]
		times := (*[timesSize]byte)(dst[len(dst)-timesSize:])
		times[0], times[1], times[2], times[11] = wire.SpanKind, byte(s.Kind), wire.SpanStart, wire.SpanEnd
		binary.LittleEndian.PutUint64(times[3:11], s.Start)
		binary.LittleEndian.PutUint64(times[12:20], s.End)
	} else {
		dst = appendTimes(dst, s)
	}
	attrs := s.Attrs
	if s.Prefix != nil {
		dst, attrs = append(dst, s.Prefix.OTLP...), attrs[len(s.Prefix.Attrs):]
	}
	for i := range attrs {
		dst = appendAttr(dst, wire.SpanAttribute, attrs[i].Key, &attrs[i], s.UTF8)
	}
	if !s.Link.ID.IsZero() {
		dst = wire.AppendHead(dst, wire.SpanLink, linkSize)
		dst = wire.AppendBytes(dst, wire.LinkTraceID, s.Link.TraceID[:])
		dst = wire.AppendBytes(dst, wire.LinkSpanID, s.Link.ID[:])
		dst = wire.AppendFixed32(dst, wire.LinkFlags, uint32(s.Link.Flags)|flagHasIsRemote)
	}
	if s.Status != span.Unset {
		dst = wire.AppendHead(dst, wire.SpanStatus, 1+wire.SizeVarint(uint64(s.Status)))
		dst = wire.AppendVarint(dst, wire.StatusCode, uint64(s.Status))
	}
	dst = slices.Grow(dst, flagsSize)[:len(dst)+flagsSize]
	end := (*[flagsSize]byte)(dst[len(dst)-flagsSize:])
	end[0], end[1] = wire.SpanFlags&0x7f|0x80, wire.SpanFlags>>7
	binary.LittleEndian.PutUint32(end[2:], flags(s))
	return wire.Close(dst, content, reserve)
}

// appendTimes appends kind and times of a span that may lack some of them.
func appendTimes(dst []byte, s *span.Span) []byte {
	if s.Kind != 0 {
		dst = wire.AppendVarint(dst, wire.SpanKind, uint64(s.Kind))
	}
	if s.Start != 0 {
		dst = wire.AppendFixed64(dst, wire.SpanStart, s.Start)
	}
	if s.End != 0 {
		dst = wire.AppendFixed64(dst, wire.SpanEnd, s.End)
	}
	return dst
}

// text is s as UTF-8, which it may be known to be.
func text(s string, known bool) string {
	if known {
		return s
	}
	return wire.Text(s)
}

// linkSize is the size of a link: its ids and its flags, each with its tag.
const linkSize = 2 + len(span.TraceID{}) + 2 + len(span.ID{}) + 1 + 4

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
// code's own, and checking each of them again is a fifth of the cost. known: a
// string is, too.
func appendAttr(dst []byte, tag byte, key string, a *span.Attr, known bool) []byte {
	switch a.Type {
	case span.IntType:
		return wire.AppendIntValue(dst, tag, key, a.Num)
	case span.BoolType:
		return wire.AppendBoolValue(dst, tag, key, a.Num != 0)
	default:
		return wire.AppendStringValue(dst, tag, key, text(a.Str, known))
	}
}

// appendString appends a string field, or nothing if s is empty, which is proto3's default.
func appendString(dst []byte, tag byte, s string) []byte {
	if s == "" {
		return dst
	}
	return wire.AppendBytes(dst, tag, s)
}

// sizeString is the size of what appendString appends.
func sizeString(s string) int {
	if s == "" {
		return 0
	}
	return wire.SizeField(len(s))
}
