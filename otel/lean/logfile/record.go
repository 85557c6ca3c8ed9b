package logfile

import (
	"errors"
	"strconv"

	"github.com/tare-trace/tare/otel/wire"
	"github.com/tare-trace/tare/otel/wire/fields"
)

// What readers recognise a line and its parts by.
const (
	// EventName is the EventName of a line.
	EventName = "tare.span"
	// SpanKey is the attribute that holds what a log record has no field for.
	SpanKey = "tare.span"
	// BelowKey is the attribute that holds the records of the spans below a local root.
	BelowKey = "tare.below"
)

var (
	errDeep   = errors.New("an attribute is nested deeper than 100 levels")
	kindNames = [...]string{"", "internal", "server", "client", "producer", "consumer"}
)

// Bits of a span's flags beyond the W3C trace flags.
const (
	traceFlags    = 0xff
	flagHasRemote = 1 << 8
	flagIsRemote  = 1 << 9
)

// parts are the fields of a span of OTLP; slices are of the message.
type parts struct {
	traceID, id, parent, state, name, message []byte
	kind, status, start, end                  uint64
	flags                                     uint32
	attrs, events, links                      [][]byte
	droppedAttrs, droppedEvents, droppedLinks uint64
}

// read takes a span apart.
func (p *parts) read(span []byte) error {
	*p = parts{attrs: p.attrs[:0], events: p.events[:0], links: p.links[:0]}
	return fields.Each(span, func(tag, v uint64, content, whole []byte) error {
		switch tag {
		case wire.SpanTraceID:
			p.traceID = content
		case wire.SpanID:
			p.id = content
		case wire.SpanParentID:
			p.parent = content
		case wire.SpanTraceState:
			p.state = content
		case wire.SpanName:
			p.name = content
		case wire.SpanKind:
			p.kind = v
		case wire.SpanStart:
			p.start = v
		case wire.SpanEnd:
			p.end = v
		case wire.SpanFlags:
			p.flags = fixed32(whole)
		case wire.SpanAttribute:
			p.attrs = append(p.attrs, content)
		case wire.SpanEvent:
			p.events = append(p.events, content)
		case wire.SpanLink:
			p.links = append(p.links, content)
		case wire.SpanDroppedAttributes:
			p.droppedAttrs = v
		case wire.SpanDroppedEvents:
			p.droppedEvents = v
		case wire.SpanDroppedLinks:
			p.droppedLinks = v
		case wire.SpanStatus:
			return fields.Each(content, func(tag, v uint64, content, _ []byte) error {
				switch tag {
				case wire.StatusCode:
					p.status = v
				case wire.StatusMessage:
					p.message = content
				}
				return nil
			})
		}
		return nil
	})
}

// localRoot reports whether the span is the first one of its request in this process. Senders that do
// not say whether the parent is another process's are believed by the kind.
func (p *parts) localRoot() bool {
	switch {
	case len(p.parent) == 0:
		return true
	case p.flags&flagHasRemote != 0:
		return p.flags&flagIsRemote != 0
	}
	kind := kindName(p.kind)
	return kind == "server" || kind == "consumer"
}

func kindName(kind uint64) string {
	if kind < uint64(len(kindNames)) {
		return kindNames[kind]
	}
	return ""
}

// append appends the span's record from its SpanId on, without InstrumentationScope and without the
// braces that close its attributes and itself.
func (p *parts) append(b []byte, schema []byte) ([]byte, error) {
	b = append(b, `"SpanId":`...)
	b = appendHex(b, p.id)
	b = append(b, `,"TraceFlags":`...)
	b = strconv.AppendUint(b, uint64(p.flags&traceFlags), 10)
	if p.status == wire.StatusError {
		b = append(b, `,"SeverityText":"ERROR","SeverityNumber":17,"Body":`...)
	} else {
		b = append(b, `,"SeverityText":"INFO","SeverityNumber":9,"Body":`...)
	}
	b = appendText(b, p.name)
	b = append(b, `,"Attributes":`...)
	b, err := appendPairs(b, p.attrs, true)
	if err != nil {
		return b, err
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, `"`+SpanKey+`":{"duration_ns":`...)
	// Wraps where a span ends before it starts, and is negative then, so that its end can be computed.
	b = strconv.AppendInt(b, int64(p.end-p.start), 10) //nolint:gosec // as said
	if len(p.parent) > 0 {
		b = appendHex(append(b, `,"parent_span_id":`...), p.parent)
	}
	if name := kindName(p.kind); name != "" {
		b = append(append(append(b, `,"kind":"`...), name...), '"')
	}
	switch p.status {
	case wire.StatusOK:
		b = append(b, `,"status":"ok"`...)
	case wire.StatusError:
		b = append(b, `,"status":"error"`...)
	}
	b = optional(b, `,"status_message":`, p.message)
	b = optional(b, `,"trace_state":`, p.state)
	if p.flags&^traceFlags != 0 {
		b = strconv.AppendUint(append(b, `,"flags":`...), uint64(p.flags), 10)
	}
	b = optional(b, `,"resource_schema_url":`, schema)
	if b, err = p.appendEvents(b); err != nil {
		return b, err
	}
	if b, err = p.appendLinks(b); err != nil {
		return b, err
	}
	b = count(b, `,"dropped_attributes":`, p.droppedAttrs)
	b = count(b, `,"dropped_events":`, p.droppedEvents)
	b = count(b, `,"dropped_links":`, p.droppedLinks)
	return append(b, '}'), nil
}

func (p *parts) appendEvents(b []byte) ([]byte, error) {
	for i, e := range p.events {
		b = append(b, between(i, `,"events":[`)...)
		var at, dropped uint64
		var name []byte
		attrs := p.attrs[:0] // the span's are written already
		err := fields.Each(e, func(tag, v uint64, content, _ []byte) error {
			switch tag {
			case wire.EventTime:
				at = v
			case wire.EventName:
				name = content
			case wire.EventAttribute:
				attrs = append(attrs, content)
			case wire.EventDroppedAttributes:
				dropped = v
			}
			return nil
		})
		if err != nil {
			return b, err
		}
		p.attrs = attrs
		b = appendTime(append(b, `{"time":`...), at)
		b = appendText(append(b, `,"name":`...), name)
		if b, err = appendRest(b, attrs, dropped); err != nil {
			return b, err
		}
	}
	if len(p.events) > 0 {
		b = append(b, ']')
	}
	return b, nil
}

func (p *parts) appendLinks(b []byte) ([]byte, error) {
	for i, l := range p.links {
		b = append(b, between(i, `,"links":[`)...)
		var traceID, id, state []byte
		var flags, dropped uint64
		attrs := p.attrs[:0]
		err := fields.Each(l, func(tag, v uint64, content, whole []byte) error {
			switch tag {
			case wire.LinkTraceID:
				traceID = content
			case wire.LinkSpanID:
				id = content
			case wire.LinkTraceState:
				state = content
			case wire.LinkAttribute:
				attrs = append(attrs, content)
			case wire.LinkDroppedAttributes:
				dropped = v
			case wire.LinkFlags:
				flags = uint64(fixed32(whole))
			}
			return nil
		})
		if err != nil {
			return b, err
		}
		p.attrs = attrs
		b = appendHex(append(b, `{"trace_id":`...), traceID)
		b = appendHex(append(b, `,"span_id":`...), id)
		b = optional(b, `,"trace_state":`, state)
		b = count(b, `,"flags":`, flags)
		if b, err = appendRest(b, attrs, dropped); err != nil {
			return b, err
		}
	}
	if len(p.links) > 0 {
		b = append(b, ']')
	}
	return b, nil
}

// appendRest appends what ends an event and a link.
func appendRest(b []byte, attrs [][]byte, dropped uint64) ([]byte, error) {
	if len(attrs) > 0 {
		var err error
		if b, err = appendPairs(append(b, `,"attributes":`...), attrs, false); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	return append(count(b, `,"dropped_attributes":`, dropped), '}'), nil
}

// between is what stands before an element of a list.
func between(i int, open string) string {
	if i == 0 {
		return open
	}
	return ","
}

func optional(b []byte, key string, text []byte) []byte {
	if len(text) == 0 {
		return b
	}
	return appendText(append(b, key...), text)
}

func count(b []byte, key string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(append(b, key...), n, 10)
}
