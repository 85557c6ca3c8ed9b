package wire

// Types of a field, the low three bits of its tag.
const (
	varint  = 0
	fixed64 = 1
	length  = 2
	fixed32 = 5
)

// Tags of OTLP 1.x, number<<3 | type: opentelemetry/proto/{common,resource,trace,collector/trace}/v1.
// They never change.
const (
	TracesResourceSpans = 1<<3 | length // of ExportTraceServiceRequest and of TracesData

	ResourceSpansResource = 1<<3 | length
	ResourceSpansScope    = 2<<3 | length // scope_spans
	SchemaURL             = 3<<3 | length // of ResourceSpans and of ScopeSpans

	ResourceAttribute = 1<<3 | length

	ScopeSpansScope = 1<<3 | length
	ScopeSpansSpan  = 2<<3 | length

	ScopeName      = 1<<3 | length
	ScopeVersion   = 2<<3 | length
	ScopeAttribute = 3<<3 | length

	SpanTraceID           = 1<<3 | length
	SpanID                = 2<<3 | length
	SpanTraceState        = 3<<3 | length
	SpanParentID          = 4<<3 | length
	SpanName              = 5<<3 | length
	SpanKind              = 6<<3 | varint
	SpanStart             = 7<<3 | fixed64
	SpanEnd               = 8<<3 | fixed64
	SpanAttribute         = 9<<3 | length
	SpanDroppedAttributes = 10<<3 | varint
	SpanEvent             = 11<<3 | length
	SpanDroppedEvents     = 12<<3 | varint
	SpanLink              = 13<<3 | length
	SpanDroppedLinks      = 14<<3 | varint
	SpanStatus            = 15<<3 | length
	SpanFlags             = 16<<3 | fixed32 // two bytes

	StatusMessage = 2<<3 | length
	StatusCode    = 3<<3 | varint

	EventTime              = 1<<3 | fixed64
	EventName              = 2<<3 | length
	EventAttribute         = 3<<3 | length
	EventDroppedAttributes = 4<<3 | varint

	LinkTraceID           = 1<<3 | length
	LinkSpanID            = 2<<3 | length
	LinkTraceState        = 3<<3 | length
	LinkAttribute         = 4<<3 | length
	LinkDroppedAttributes = 5<<3 | varint
	LinkFlags             = 6<<3 | fixed32

	KeyValueKey   = 1<<3 | length
	KeyValueValue = 2<<3 | length

	AnyValueString = 1<<3 | length
	AnyValueBool   = 2<<3 | varint
	AnyValueInt    = 3<<3 | varint
	AnyValueDouble = 4<<3 | fixed64
	AnyValueArray  = 5<<3 | length
	AnyValueMap    = 6<<3 | length
	AnyValueBytes  = 7<<3 | length

	ArrayElement = 1<<3 | length // an AnyValue
	MapElement   = 1<<3 | length // a KeyValue
)

// Status codes of a span.
const (
	StatusOK    = 1
	StatusError = 2
)
