// Package otlp turns the span model into OTLP/protobuf bytes.
//
// It encodes straight into the caller's buffer, without the structs of the
// generated code, because the agent encodes every sampled span on a budget of
// some hundred nanoseconds and then hands the bytes, as they are, to whatever
// transport carries them.
//
// It does no input or output, keeps no state, and never fails to encode: text
// that is not UTF-8 (payload bytes name some spans) is repaired, since one bad
// string would make a receiver refuse the whole request.
package otlp

// Span.flags: the W3C trace flags in the low byte, then what is known of the
// parent. Whoever reads spans of ours may rely on "has is remote".
const (
	flagSampled     = 0x001
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

// serviceName is the resource attribute that the model keeps apart.
const serviceName = "service.name"
