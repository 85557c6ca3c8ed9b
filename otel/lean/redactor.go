package lean

import "go.opentelemetry.io/otel/attribute"

// Redactor replaces text and attributes that must not leave the process, before they are encoded.
// Its methods are called from many goroutines at once, on the path of the traced request.
type Redactor interface {
	// Text returns what may be shown of a span's or an event's name, of a status description and
	// of the text of an exception.
	Text(s string) string
	// Attribute returns the attribute that may be shown in the place of kv; false leaves it out,
	// and it is not counted as dropped. Attributes of spans, events, links, scopes and of the
	// resource pass here, before any limit is applied: a limit must not cut what a pattern finds.
	Attribute(kv attribute.KeyValue) (attribute.KeyValue, bool)
}
