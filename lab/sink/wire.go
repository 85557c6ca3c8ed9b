package sink

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of OTLP on the way from a request to a span's ids: they never
// change (opentelemetry/proto/trace/v1/trace.proto).
const (
	requestResourceSpans = 1
	resourceScopeSpans   = 2
	scopeSpans           = 2
	spanTraceID          = 1
	spanID               = 2
	spanParentID         = 4
	spanName             = 5
	spanKind             = 6
	spanStatus           = 15
	statusCode           = 3
	statusError          = 2 // Status.StatusCode
)

// errWire says as little as can be said of bytes that are not what they should be.
var errWire = errors.New("body is not a protobuf message of OTLP traces")

// wireSpan is what is counted of a span; its fields point into the body.
type wireSpan struct {
	trace, id, parent, name []byte
	kind                    uint64
	failed                  bool // its status is an error
}

// eachField calls f for every field that holds bytes and g, if it is not nil, for
// every varint, and skips the others: they are unknown here, or of a wrong type,
// which protobuf treats alike.
func eachField(b []byte, f func(num protowire.Number, v []byte) error, g func(num protowire.Number, v uint64)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		if typ == protowire.VarintType && g != nil {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
			}
			b = b[n:]
			g(num, v)
			continue
		}
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		if err := f(num, v); err != nil {
			return err
		}
	}
	return nil
}

// checkTop walks the outermost message only, one step per resource: cheap enough
// to refuse what is not OTLP while something is measured.
func checkTop(body []byte) error {
	return eachField(body, func(protowire.Number, []byte) error { return nil }, nil)
}

// walk calls f for every span of a request. The wireSpan is used again for the
// next one. It reads whatever proto.Unmarshal reads, and to the same effect, but
// does not look into fields that it does not need.
func walk(body []byte, f func(*wireSpan)) error {
	var s wireSpan
	ofSpan := func(num protowire.Number, v []byte) error {
		switch num { // of a field that repeats, the last one holds
		case spanTraceID:
			s.trace = v
		case spanID:
			s.id = v
		case spanParentID:
			s.parent = v
		case spanName:
			s.name = v
		case spanStatus:
			return eachField(v, func(protowire.Number, []byte) error { return nil }, func(num protowire.Number, v uint64) {
				if num == statusCode {
					s.failed = int32(v) == statusError //nolint:gosec // an enumeration, as protobuf reads it
				}
			})
		}
		return nil
	}
	kindOf := func(num protowire.Number, v uint64) {
		if num == spanKind {
			s.kind = v
		}
	}
	ofScope := func(num protowire.Number, v []byte) error {
		if num != scopeSpans {
			return nil
		}
		s = wireSpan{}
		if err := eachField(v, ofSpan, kindOf); err != nil {
			return err
		}
		f(&s)
		return nil
	}
	ofResource := func(num protowire.Number, v []byte) error {
		if num != resourceScopeSpans {
			return nil
		}
		return eachField(v, ofScope, nil)
	}
	return eachField(body, func(num protowire.Number, v []byte) error {
		if num != requestResourceSpans {
			return nil
		}
		return eachField(v, ofResource, nil)
	}, nil)
}
