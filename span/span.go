// Package span is the span model that every part of Tare shares: what the
// agent builds, what the collector completes, what is printed and exported.
// It holds data only; it knows nothing of the kernel or of any transport.
package span

import (
	"encoding/hex"
	"fmt"
)

// TraceID is a W3C trace id: 16 bytes, in wire order, never all zero.
type TraceID [16]byte

// ID is a W3C span (parent) id: 8 bytes, in wire order, never all zero.
type ID [8]byte

func (t TraceID) String() string { return hex.EncodeToString(t[:]) }
func (i ID) String() string      { return hex.EncodeToString(i[:]) }

// IsZero reports whether the id is the invalid, all-zero one.
func (t TraceID) IsZero() bool { return t == TraceID{} }

// IsZero reports whether the id is absent: a span without a parent.
func (i ID) IsZero() bool { return i == ID{} }

// Kind is OpenTelemetry's span kind; the values are those of OTLP.
type Kind uint8

// The kinds. A message on a socket has one of the first three.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
	Producer Kind = 4
	Consumer Kind = 5
)

func (k Kind) String() string {
	switch k {
	case Internal:
		return "internal"
	case Server:
		return "server"
	case Client:
		return "client"
	case Producer:
		return "producer"
	case Consumer:
		return "consumer"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Status is OpenTelemetry's span status; the values are those of OTLP.
type Status uint8

// Status values. OK is never set by an instrumentation.
const (
	Unset Status = 0
	OK    Status = 1
	Error Status = 2
)

// Resource is what all spans of one service instance share. Spans point to
// it, so it must not change after its first use: a new instance is a new one.
type Resource struct {
	Service string // service.name
	Attrs   []Attr // the others, without service.name
}

// Span is one unit of work of one service.
type Span struct {
	TraceID    TraceID
	ID         ID
	Parent     ID // zero at the root
	Kind       Kind
	Name       string
	TraceState string // W3C tracestate, "ot=th:…" at roots that were sampled here
	Start, End uint64 // nanoseconds since 1970-01-01 UTC
	Status     Status
	Resource   *Resource
	Attrs      []Attr
	Prefix     *Prefix // nil, or the attributes with which Attrs begins
	Link       Link    // zero: none
	UTF8       bool    // all of its text is known to be UTF-8: encoders need not look
}

// Prefix is attributes with which the spans of many requests begin, and how they are
// encoded, which is done once. It does not change after its first use.
type Prefix struct {
	Attrs []Attr
	OTLP  []byte // by [github.com/tare-trace/tare/span/otlp.NewPrefix]
}

// Link names another span, of any trace, to which a span is related.
type Link struct {
	TraceID TraceID
	ID      ID
	Flags   uint8 // W3C trace flags: 1, sampled
}

// Duration is End − Start in nanoseconds, 0 if the clock went backwards.
func (s *Span) Duration() uint64 {
	if s.End < s.Start {
		return 0
	}
	return s.End - s.Start
}

// Attr finds an attribute by key.
func (s *Span) Attr(key string) (Attr, bool) {
	for _, a := range s.Attrs {
		if a.Key == key {
			return a, true
		}
	}
	return Attr{}, false
}
