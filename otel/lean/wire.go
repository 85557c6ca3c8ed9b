package lean

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// The wire format of protobuf, as far as OTLP needs it. A tag is number<<3 | type.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// Field numbers of OTLP 1.x: opentelemetry/proto/{common,resource,trace,collector/trace}/v1.
const (
	tagSpanTraceID           = 1<<3 | wireBytes
	tagSpanSpanID            = 2<<3 | wireBytes
	tagSpanTraceState        = 3<<3 | wireBytes
	tagSpanParentSpanID      = 4<<3 | wireBytes
	tagSpanName              = 5<<3 | wireBytes
	tagSpanKind              = 6<<3 | wireVarint
	tagSpanStart             = 7<<3 | wireFixed64
	tagSpanEnd               = 8<<3 | wireFixed64
	tagSpanAttribute         = 9<<3 | wireBytes
	tagSpanDroppedAttributes = 10<<3 | wireVarint
	tagSpanEvent             = 11<<3 | wireBytes
	tagSpanDroppedEvents     = 12<<3 | wireVarint
	tagSpanLink              = 13<<3 | wireBytes
	tagSpanDroppedLinks      = 14<<3 | wireVarint
	tagSpanStatus            = 15<<3 | wireBytes
	tagSpanFlags             = 16<<3 | wireFixed32 // two bytes as a varint

	tagStatusMessage = 2<<3 | wireBytes
	tagStatusCode    = 3<<3 | wireVarint

	tagEventTime       = 1<<3 | wireFixed64
	tagEventName       = 2<<3 | wireBytes
	tagEventAttribute  = 3<<3 | wireBytes
	tagEventDropped    = 4<<3 | wireVarint
	tagLinkTraceID     = 1<<3 | wireBytes
	tagLinkSpanID      = 2<<3 | wireBytes
	tagLinkAttribute   = 4<<3 | wireBytes
	tagLinkDropped     = 5<<3 | wireVarint
	tagLinkFlags       = 6<<3 | wireFixed32
	tagKey             = 1<<3 | wireBytes
	tagValue           = 2<<3 | wireBytes
	tagValueString     = 1<<3 | wireBytes
	tagValueBool       = 2<<3 | wireVarint
	tagValueInt        = 3<<3 | wireVarint
	tagValueDouble     = 4<<3 | wireFixed64
	tagValueArray      = 5<<3 | wireBytes
	tagValueMap        = 6<<3 | wireBytes
	tagValueBytes      = 7<<3 | wireBytes
	tagArrayElement    = 1<<3 | wireBytes
	tagMapElement      = 1<<3 | wireBytes
	tagRequestResource = 1<<3 | wireBytes // ExportTraceServiceRequest.resource_spans
	tagResource        = 1<<3 | wireBytes // ResourceSpans.resource
	tagScopeSpans      = 2<<3 | wireBytes // ResourceSpans.scope_spans
	tagSchemaURL       = 3<<3 | wireBytes // of ResourceSpans and of ScopeSpans
	tagScope           = 1<<3 | wireBytes // ScopeSpans.scope
	tagSpan            = 2<<3 | wireBytes // ScopeSpans.spans
	tagResAttribute    = 1<<3 | wireBytes
	tagScopeName       = 1<<3 | wireBytes
	tagScopeVersion    = 2<<3 | wireBytes
	tagScopeAttribute  = 3<<3 | wireBytes
)

// varintLen is the number of bytes that appendVarint writes.
func varintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// appendString writes a bytes or string field of one tag byte; s is valid UTF-8 where the field is
// a string.
func appendString(b []byte, tag byte, s string) []byte {
	if len(s) < 0x80 {
		b = append(b, tag, byte(len(s)))
	} else {
		b = appendVarint(append(b, tag), uint64(len(s)))
	}
	return append(b, s...)
}

func appendFixed64(b []byte, tag byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, tag), v)
}

// appendCount writes a uint32 field of one tag byte; zero is proto3's default and needs no bytes.
func appendCount(b []byte, tag byte, n int) []byte {
	if n <= 0 {
		return b
	}
	return appendVarint(append(b, tag), min(uint64(n), 1<<32-1))
}

// openField begins a field whose length is not known yet; closeField, given what openField
// returned, writes the length. Contents of 128 bytes and more are moved to make room for it.
func openField(b []byte, tag byte) ([]byte, int) {
	b = append(b, tag, 0)
	return b, len(b)
}

func closeField(b []byte, start int) []byte {
	n := len(b) - start
	if n < 0x80 {
		b[start-1] = byte(n)
		return b
	}
	var room [10]byte
	more := varintLen(uint64(n)) - 1
	b = append(b, room[:more]...)
	copy(b[start+more:], b[start:start+n])
	binary.PutUvarint(b[start-1:start+more], uint64(n))
	return b
}

// validText returns s as protobuf allows it in a string field. The official exporter fails with
// the whole batch if one string in it is not valid UTF-8; here the invalid bytes are replaced by
// U+FFFD, and everything else arrives.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
