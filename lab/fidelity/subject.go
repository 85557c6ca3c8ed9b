package fidelity

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// fullKey is of a call of HTTP, as OpenTelemetry's instrumentations have it: the
// path of the URL is its subject.
const fullKey = "url.full"

// Keys are the attributes that this package reads. Spans that are kept for
// nothing but Classify need no others.
func Keys() []string {
	return append(slices.Clone(texts), fullKey, "rpc.service", "rpc.method", metadataKey, semconv.Behind, semconv.LinkingReason)
}

// texts hold the number at their end. db.statement is what instrumentations of
// OpenTelemetry's older conventions call db.query.text.
var texts = []string{"url.path", "db.query.text", "db.statement"}

// RequestHeader is the element of a gRPC call's metadata that is the number.
const RequestHeader = "x-request-id"

const metadataKey = "rpc.request.metadata." + RequestHeader

// subject is what a span says about its request: the text before the number,
// and the number. A span without such a text is unnamed.
type subject struct {
	prefix string
	number uint64
	named  bool
	call   bool // of gRPC that names its method alone: there is no number that could be read
}

func subjectOf(s *span.Span) subject {
	for _, key := range texts {
		if a, ok := s.Attr(key); ok && a.Type == span.StringType {
			return split(a.Str)
		}
	}
	if a, ok := s.Attr(fullKey); ok && a.Type == span.StringType {
		u, err := url.Parse(a.Str)
		if err != nil {
			return subject{}
		}
		return split(u.Path)
	}
	if method, ok := s.Attr("rpc.method"); ok {
		// Its whole name, or by older conventions that of the service apart.
		name := method.Str
		if service, ok := s.Attr("rpc.service"); ok && service.Type == span.StringType {
			name = service.Str + "/" + name
		}
		number, has := s.Attr(metadataKey)
		if !has {
			return subject{prefix: name, call: true}
		}
		n, err := strconv.ParseUint(number.Str, 10, 64)
		return subject{prefix: name, number: n, named: err == nil}
	}
	return subject{}
}

// split takes the decimal digits off the end.
func split(text string) subject {
	i := len(text)
	for i > 0 && '0' <= text[i-1] && text[i-1] <= '9' {
		i--
	}
	n, err := strconv.ParseUint(text[i:], 10, 64)
	return subject{prefix: text[:i], number: n, named: err == nil}
}
