package keep

import (
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Bytes of the SDK's structures on 64-bit machines, from their declarations.
const (
	spanBytes      = 480 // the SDK's copy of an ended span, and its place in the buffer
	attributeBytes = 64  // key (string header), value (type, number, string, interface)
	eventBytes     = 80  // name, attributes, count, time
	linkBytes      = 88  // span context, attributes, count
	elementBytes   = 16  // of a slice of strings; others are 8 or less
)

// Size estimates the bytes that a buffered span keeps alive: structures and the
// text of names, values and descriptions. Text that is shared (constants, the
// resource) is counted although it costs nothing more, so the estimate is
// rather high.
func Size(s sdktrace.ReadOnlySpan) int {
	attributes := s.Attributes()
	n := spanBytes + len(s.Name()) + len(s.Status().Description) +
		// Beyond the length there may be room that was not used.
		(cap(attributes)-len(attributes))*attributeBytes + attributesSize(attributes)
	for _, e := range s.Events() {
		n += eventBytes + len(e.Name) + attributesSize(e.Attributes)
	}
	for _, l := range s.Links() {
		n += linkBytes + attributesSize(l.Attributes)
	}
	return n
}

func attributesSize(attributes []attribute.KeyValue) int {
	n := attributeBytes * len(attributes)
	for i := range attributes {
		n += len(attributes[i].Key) + valueSize(attributes[i].Value)
	}
	return n
}

// valueSize returns the bytes of a value beyond its fixed part. The slices that
// it asks for are copies; they are rare in spans.
func valueSize(v attribute.Value) int {
	switch v.Type() {
	case attribute.STRING:
		return len(v.AsString())
	case attribute.STRINGSLICE:
		n := 0
		for _, s := range v.AsStringSlice() {
			n += elementBytes + len(s)
		}
		return n
	case attribute.BOOLSLICE:
		return len(v.AsBoolSlice())
	case attribute.INT64SLICE:
		return 8 * len(v.AsInt64Slice())
	case attribute.FLOAT64SLICE:
		return 8 * len(v.AsFloat64Slice())
	case attribute.BYTESLICE:
		return len(v.AsByteSlice())
	case attribute.SLICE:
		n := 0
		for _, e := range v.AsSlice() {
			n += attributeBytes + valueSize(e)
		}
		return n
	case attribute.MAP:
		return attributesSize(v.AsMap())
	}
	return 0
}
