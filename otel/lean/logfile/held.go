package logfile

import (
	"bytes"
	"slices"
	"time"
)

// maxHeld bounds the spans that wait for their local root, in bytes of JSON.
const maxHeld = 16 << 20

// held are spans that wait for the end of their local root.
type held struct {
	traces map[[16]byte]*waiting
	order  []*waiting // by the first span's arrival; emptied ones stay until they are the first
	spans  int
	bytes  int
	max    int
}

// waiting are the spans of a trace that wait.
type waiting struct {
	id    [16]byte
	since time.Time
	spans []fragment
	bytes int
}

// fragment is the record of a span, without the parts that a line has once.
type fragment struct {
	id, parent [8]byte
	resource   []byte
	record     []byte
}

func newHeld(limit int64) *held {
	return &held{traces: map[[16]byte]*waiting{}, max: int(min(limit, maxHeld))}
}

// hold keeps the span at hand.
func (l *lines) hold() error {
	p, h := &l.span, l.held
	record := appendTime([]byte(`"Timestamp":`), p.start)
	record, err := p.append(append(append(record, l.scope...), ','), l.schema)
	if err != nil {
		return err
	}
	f := fragment{id: [8]byte(p.id), parent: [8]byte(p.parent), record: record}
	w := h.traces[[16]byte(p.traceID)]
	if w == nil {
		w = &waiting{id: [16]byte(p.traceID), since: time.Now()}
		h.traces[w.id] = w
		if h.order = append(h.order, w); len(h.order) > 64+2*len(h.traces) {
			h.order = slices.DeleteFunc(h.order, func(w *waiting) bool { return len(w.spans) == 0 && h.traces[w.id] != w })
		}
	}
	size := len(record)
	// Nearly all of a trace's spans here are of one resource.
	if n := len(w.spans); n > 0 && bytes.Equal(w.spans[n-1].resource, l.resource) {
		f.resource = w.spans[n-1].resource
	} else {
		f.resource = bytes.Clone(l.resource)
		size += len(f.resource)
	}
	w.spans = append(w.spans, f)
	w.bytes += size
	h.bytes += size
	h.spans++
	return nil
}

// below appends the spans below a local root to its attributes, and forgets them.
func (l *lines) below(b []byte, root *parts) []byte {
	w := l.held.traces[[16]byte(root.traceID)]
	if w == nil {
		return b
	}
	children := make(map[[8]byte][]int, len(w.spans))
	for i, f := range w.spans {
		if bytes.Equal(f.resource, l.resource) {
			children[f.parent] = append(children[f.parent], i)
		}
	}
	below := make([]bool, len(w.spans))
	for next := [][8]byte{[8]byte(root.id)}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		for _, i := range children[id] {
			below[i] = true
			next = append(next, w.spans[i].id)
		}
		delete(children, id) // ids that occur twice, and cycles
	}
	rest := w.spans[:0]
	for i, f := range w.spans {
		if !below[i] {
			rest = append(rest, f)
			continue
		}
		b = append(b, between(l.spans-1, `,"`+BelowKey+`":[`)...)
		b = append(append(append(b, '{'), f.record...), "}}"...)
		w.bytes -= len(f.record)
		l.held.bytes -= len(f.record)
		l.held.spans--
		l.spans++
	}
	if l.spans > 1 {
		b = append(b, ']')
	}
	clear(w.spans[len(rest):])
	if w.spans = rest; len(rest) == 0 {
		l.held.forget(w)
	}
	return b
}

// forget removes a trace; its place in the order goes when it is the first.
func (h *held) forget(w *waiting) {
	delete(h.traces, w.id)
	h.bytes -= w.bytes
	w.bytes = 0
}

// release makes lines of their own of the spans that have waited since before the time, and of the
// oldest beyond the bound.
func (l *lines) release(before time.Time, done func()) {
	h := l.held
	for len(h.order) > 0 {
		w := h.order[0]
		if len(w.spans) > 0 && !w.since.Before(before) && h.bytes <= h.max {
			return
		}
		h.order = h.order[1:]
		for _, f := range w.spans {
			b := append(append(l.open(l.out, w.id[:], f.resource), ','), f.record...)
			l.spans = 1
			h.spans--
			l.close(b, done)
		}
		if w.spans = nil; h.traces[w.id] == w {
			h.forget(w)
		}
	}
}
