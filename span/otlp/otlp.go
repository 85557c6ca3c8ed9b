// Package otlp turns the span model into OTLP/protobuf bytes and back.
//
// It encodes straight into the caller's buffer, without the structs of the
// generated code, because the agent encodes every sampled span on a budget of
// some hundred nanoseconds and then hands the bytes, as they are, to whatever
// transport carries them.
//
// It does no input or output, keeps no state, and never fails to encode: text
// that is not UTF-8 (payload bytes name some spans) is repaired, since one bad
// string would make a receiver refuse the whole request. It refuses to decode
// what the model cannot hold truthfully: a span without a valid trace or span
// id is an error. Events, links, status messages, dropped counts, schema URLs
// and scopes are outside of the model: Decode leaves them out.
package otlp

// Fields of the OTLP messages, as protobuf tags: number<<3 | wire type. All
// but flags fit one byte. Tests decode with the official messages, so a wrong
// one cannot hide.
const (
	tagResource   = 1<<3 | 2 // ResourceSpans.resource
	tagScopeSpans = 2<<3 | 2 // ResourceSpans.scope_spans

	tagResourceAttr = 1<<3 | 2 // Resource.attributes

	tagScope = 1<<3 | 2 // ScopeSpans.scope
	tagSpan  = 2<<3 | 2 // ScopeSpans.spans

	tagScopeName    = 1<<3 | 2 // InstrumentationScope.name
	tagScopeVersion = 2<<3 | 2 // InstrumentationScope.version

	tagTraceID    = 1<<3 | 2 // Span.trace_id
	tagSpanID     = 2<<3 | 2 // Span.span_id
	tagTraceState = 3<<3 | 2 // Span.trace_state
	tagParent     = 4<<3 | 2 // Span.parent_span_id
	tagName       = 5<<3 | 2 // Span.name
	tagKind       = 6 << 3   // Span.kind
	tagStart      = 7<<3 | 1 // Span.start_time_unix_nano
	tagEnd        = 8<<3 | 1 // Span.end_time_unix_nano
	tagAttr       = 9<<3 | 2 // Span.attributes
	tagStatus     = 15<<3 | 2
	tagFlags      = 16<<3 | 5 // Span.flags; two bytes as a varint

	tagStatusCode = 3 << 3 // Status.code

	tagKey   = 1<<3 | 2 // KeyValue.key
	tagValue = 2<<3 | 2 // KeyValue.value

	tagString = 1<<3 | 2 // AnyValue.string_value
	tagBool   = 2 << 3   // AnyValue.bool_value
	tagInt    = 3 << 3   // AnyValue.int_value
)

// Span.flags: the W3C trace flags in the low byte, then what is known of the
// parent. Whoever reads spans of ours may rely on "has is remote".
const (
	flagSampled     = 0x001
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

// serviceName is the resource attribute that the model keeps apart.
const serviceName = "service.name"
