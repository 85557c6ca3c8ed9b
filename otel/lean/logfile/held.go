package logfile

import (
	"bytes"
	"slices"
	"time"
)

// maxHeld bounds the spans that wait for their local root, in bytes of JSON.
const maxHeld = 16 << 20

// held are the spans of a request, and those of earlier ones that wait for the end of their local root.
type held struct {
	traces map[[16]byte]*waiting
	order  []*waiting // by the first span's arrival; emptied ones stay until they are the first
	ready  []*waiting // with a local root
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
	ready bool
}

// fragment is the record of a span, without the parts that a line has once.
type fragment struct {
	id, parent [8]byte
	root       bool
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
	f := fragment{id: [8]byte(p.id), root: p.localRoot(), record: record}
	copy(f.parent[:], p.parent) // none is zero
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
	if w.spans = append(w.spans, f); f.root && !w.ready {
		w.ready = true
		h.ready = append(h.ready, w)
	}
	w.bytes += size
	h.bytes += size
	h.spans++
	return nil
}

// complete makes the lines of the local roots that the request had. Its spans are in no order: those of one
// trace may have waited in several shards of lean's queue.
func (l *lines) complete(done func()) {
	for _, w := range l.held.ready {
		l.requests(w, done)
	}
	clear(l.held.ready)
	l.held.ready = l.held.ready[:0]
}

// requests makes the lines of a trace's local roots, and leaves the spans that are below none of them.
func (l *lines) requests(w *waiting, done func()) {
	children := make(map[[8]byte][]int, len(w.spans))
	for i, f := range w.spans {
		if !f.root {
			children[f.parent] = append(children[f.parent], i)
		}
	}
	written := make([]bool, len(w.spans))
	write := func(b []byte, i int) []byte {
		written[i] = true
		size := len(w.spans[i].record)
		w.bytes -= size
		l.held.bytes -= size
		l.held.spans--
		return append(b, w.spans[i].record...)
	}
	for i, root := range w.spans {
		if !root.root {
			continue
		}
		b := write(append(l.open(l.out, w.id[:], root.resource), ','), i)
		l.spans = 1
		for next := [][8]byte{root.id}; len(next) > 0; {
			parent := next[len(next)-1]
			next = next[:len(next)-1]
			for _, c := range children[parent] {
				if written[c] || !bytes.Equal(w.spans[c].resource, root.resource) {
					continue
				}
				b = append(b, between(l.spans-1, `,"`+BelowKey+`":[`)...)
				b = append(write(append(b, '{'), c), "}}"...)
				next = append(next, w.spans[c].id)
				l.spans++
			}
		}
		if l.spans > 1 {
			b = append(b, ']')
		}
		l.close(b, done)
	}
	rest := w.spans[:0]
	for i, f := range w.spans {
		if !written[i] {
			rest = append(rest, f)
		}
	}
	clear(w.spans[len(rest):])
	w.ready = false
	if w.spans = rest; len(rest) == 0 {
		l.held.forget(w)
	}
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
