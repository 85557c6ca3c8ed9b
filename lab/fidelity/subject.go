package fidelity

import (
	"strconv"

	"github.com/tare-trace/tare/span"
)

// Keys are the attributes that this package reads. Spans that are kept for
// nothing but Classify need no others.
func Keys() []string { return []string{"url.path", "db.query.text"} }

// subject is what a span says about its request: the text before the number,
// and the number. A span without such a text is unnamed.
type subject struct {
	prefix string
	number uint64
	named  bool
}

func subjectOf(s *span.Span) subject {
	for _, key := range Keys() {
		if a, ok := s.Attr(key); ok && a.Type == span.StringType {
			return split(a.Str)
		}
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
