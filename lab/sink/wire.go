package sink

import (
	"fmt"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/otel/wire/fields"
)

// wireSpan is what is counted of a span; its fields point into the body.
type wireSpan struct {
	trace, id, parent, name []byte
	kind                    uint64
	start, end              uint64 // ns since 1970
	failed                  bool   // its status is an error
}

// checkTop walks the outermost message only, one step per resource: cheap enough
// to refuse what is not OTLP while something is measured.
func checkTop(body []byte) error {
	return wireError(fields.Each(body, func(_, _ uint64, _, _ []byte) error { return nil }))
}

// walk calls f for every span of a request. The wireSpan is used again for the
// next one. It reads whatever proto.Unmarshal reads, and to the same effect, but
// does not look into fields that it does not need.
func walk(body []byte, f func(*wireSpan)) error {
	var s wireSpan
	ofSpan := func(tag, value uint64, content, _ []byte) error {
		switch tag { // of a field that repeats, the last one holds
		case wire.SpanTraceID:
			s.trace = content
		case wire.SpanID:
			s.id = content
		case wire.SpanParentID:
			s.parent = content
		case wire.SpanName:
			s.name = content
		case wire.SpanKind:
			s.kind = value
		case wire.SpanStart:
			s.start = value
		case wire.SpanEnd:
			s.end = value
		case wire.SpanStatus:
			return fields.Each(content, func(tag, value uint64, _, _ []byte) error {
				if tag == wire.StatusCode {
					s.failed = int32(value) == wire.StatusError //nolint:gosec // an enumeration, as protobuf reads it
				}
				return nil
			})
		}
		return nil
	}
	return wireError(fields.Along(body, func(span []byte) error {
		s = wireSpan{}
		if err := fields.Each(span, ofSpan); err != nil {
			return err
		}
		f(&s)
		return nil
	}, wire.TracesResourceSpans, wire.ResourceSpansScope, wire.ScopeSpansSpan))
}

func wireError(err error) error {
	if err != nil {
		err = fmt.Errorf("body is not a message of OTLP traces: %w", err)
	}
	return err
}
