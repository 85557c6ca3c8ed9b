package logfile

import (
	"fmt"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/otel/wire/fields"
)

// lines makes lines of requests. Its buffers are reused.
type lines struct {
	observed uint64
	resource []byte // JSON of the resource at hand
	schema   []byte // its schema URL
	scope    []byte // JSON of the scope at hand, with the field's name
	attrs    [][]byte
	span     parts
	out      []byte
	spans    int   // in the last line
	taken    int   // of the request
	held     *held // nil: one line per span
}

// walk makes the lines of a request, and calls done after each that is complete in l.out.
func (l *lines) walk(request []byte, done func()) error {
	l.taken = 0
	return fields.Along(request, func(rs []byte) error {
		if err := l.readResource(rs); err != nil {
			return err
		}
		return fields.Along(rs, func(ss []byte) error {
			if err := l.readScope(ss); err != nil {
				return err
			}
			return fields.Along(ss, func(span []byte) error {
				err := l.take(span, done)
				if err == nil {
					l.taken++
				}
				return err
			}, wire.ScopeSpansSpan)
		}, wire.ResourceSpansScope)
	}, wire.TracesResourceSpans)
}

func (l *lines) readResource(rs []byte) (err error) {
	l.attrs, l.schema = l.attrs[:0], nil
	err = fields.Each(rs, func(tag, _ uint64, content, _ []byte) error {
		switch tag {
		case wire.SchemaURL:
			l.schema = content
		case wire.ResourceSpansResource:
			return fields.Along(content, l.attribute, wire.ResourceAttribute)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.resource, err = appendPairs(l.resource[:0], l.attrs, false)
	l.resource = append(l.resource, '}')
	return err
}

func (l *lines) attribute(kv []byte) error {
	l.attrs = append(l.attrs, kv)
	return nil
}

func (l *lines) readScope(ss []byte) error {
	l.attrs = l.attrs[:0]
	var name, version, schema []byte
	err := fields.Each(ss, func(tag, _ uint64, content, _ []byte) error {
		switch tag {
		case wire.SchemaURL:
			schema = content
		case wire.ScopeSpansScope:
			return fields.Each(content, func(tag, _ uint64, content, _ []byte) error {
				switch tag {
				case wire.ScopeName:
					name = content
				case wire.ScopeVersion:
					version = content
				case wire.ScopeAttribute:
					l.attrs = append(l.attrs, content)
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := appendText(append(l.scope[:0], `,"InstrumentationScope":{"Name":`...), name)
	b = optional(b, `,"Version":`, version)
	b = optional(b, `,"SchemaUrl":`, schema)
	if len(l.attrs) > 0 {
		if b, err = appendPairs(append(b, `,"Attributes":`...), l.attrs, false); err != nil {
			return err
		}
		b = append(b, '}')
	}
	l.scope = append(b, '}')
	return nil
}

// take makes the line of a span, or holds it.
func (l *lines) take(span []byte, done func()) error {
	p := &l.span
	if err := p.read(span); err != nil {
		return err
	}
	if len(p.traceID) != 16 || len(p.id) != 8 || len(p.parent) != 0 && len(p.parent) != 8 {
		return fmt.Errorf("a span has ids of %d, %d and %d bytes", len(p.traceID), len(p.id), len(p.parent))
	}
	if l.held != nil {
		return l.hold()
	}
	b := l.open(l.out, p.traceID, l.resource)
	b = appendTime(append(b, `,"Timestamp":`...), p.start)
	b, err := p.append(append(append(b, l.scope...), ','), l.schema)
	if err != nil {
		return err
	}
	l.spans = 1
	l.close(b, done)
	return nil
}

// open begins a line.
func (l *lines) open(b, traceID, resource []byte) []byte {
	b = appendTime(append(b, `{"EventName":"`+EventName+`","ObservedTimestamp":`...), l.observed)
	b = appendHex(append(b, `,"TraceId":`...), traceID)
	return append(append(b, `,"Resource":`...), resource...)
}

// close ends a line: its attributes, and itself.
func (l *lines) close(b []byte, done func()) {
	l.out = append(b, "}}\n"...)
	done()
}
