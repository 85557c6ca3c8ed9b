package lean

import (
	"encoding/binary"

	"github.com/tare-trace/tare/otel/wire"
)

// pending holds the spans that the exporting goroutine has taken from the shards and not sent yet,
// by scope.
type pending struct {
	scopes []scopePending
	spans  int
	bytes  int
}

type scopePending struct {
	head   []byte // of the ScopeSpans message: the scope and its schema URL
	chunks []chunk
	taken  int   // bytes of the first chunk that were sent
	cuts   []cut // for the request that is being composed
}

// cut is a part of a chunk that goes into a request.
type cut struct{ b []byte }

func (p *pending) add(scope int, c chunk) {
	s := &p.scopes[scope]
	s.chunks = append(s.chunks, c)
	p.spans += c.spans
	p.bytes += len(c.b)
}

// compose appends an ExportTraceServiceRequest of at most maxSpans spans and, unless the first is
// larger alone, about maxBytes to b. Sizes are known before anything is written: nothing moves.
// Chunks that are used up are handed to free after they are copied.
func (p *pending) compose(b []byte, resource []byte, maxSpans, maxBytes int, free func([]byte)) (request []byte, spans, size int) {
	resourceSpans := len(resource)
	for i := range p.scopes {
		s := &p.scopes[i]
		n, bytes := s.cut(maxSpans-spans, maxBytes-size, spans == 0)
		if n == 0 {
			continue
		}
		spans += n
		size += bytes
		resourceSpans += wire.SizeField(len(s.head) + bytes)
		if spans == maxSpans {
			break
		}
	}
	b = wire.AppendHead(b, wire.TracesResourceSpans, resourceSpans)
	b = append(b, resource...)
	for i := range p.scopes {
		s := &p.scopes[i]
		if len(s.cuts) == 0 {
			continue
		}
		scopeSpans := len(s.head)
		for _, c := range s.cuts {
			scopeSpans += len(c.b)
		}
		b = wire.AppendHead(b, wire.ResourceSpansScope, scopeSpans)
		b = append(b, s.head...)
		for _, c := range s.cuts {
			b = append(b, c.b...)
		}
		s.sent(free)
	}
	p.spans -= spans
	p.bytes -= size
	return b, spans, size
}

// cut chooses what of a scope goes into a request: whole chunks while they fit, then spans.
func (s *scopePending) cut(maxSpans, maxBytes int, first bool) (spans, bytes int) {
	for i := range s.chunks {
		c := s.chunks[i]
		if i == 0 {
			c.b = c.b[s.taken:]
		}
		n, end := c.spans, len(c.b)
		if n > maxSpans-spans || end > maxBytes-bytes {
			n, end = 0, 0
			for n < c.spans && n < maxSpans-spans {
				size := spanField(c.b[end:])
				if bytes+end+size > maxBytes && !(first && spans+n == 0) {
					break
				}
				end += size
				n++
			}
		}
		if n > 0 {
			s.cuts = append(s.cuts, cut{c.b[:end]})
			spans += n
			bytes += end
		}
		s.chunks[i].spans -= n
		if s.chunks[i].spans > 0 {
			break
		}
	}
	return spans, bytes
}

// sent forgets what was cut.
func (s *scopePending) sent(free func([]byte)) {
	used := 0
	for i, c := range s.cuts {
		if s.chunks[i].spans == 0 {
			free(s.chunks[i].b)
			used++
			s.taken = 0
		} else {
			s.taken += len(c.b)
		}
	}
	left := copy(s.chunks, s.chunks[used:])
	clear(s.chunks[left:])
	s.chunks = s.chunks[:left]
	clear(s.cuts)
	s.cuts = s.cuts[:0]
}

// spanField is the length of the field that b begins with: one tag byte, length, content.
func spanField(b []byte) int {
	n, w := binary.Uvarint(b[1:])
	return 1 + w + int(n)
}
