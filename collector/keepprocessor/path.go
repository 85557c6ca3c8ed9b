package keepprocessor

import (
	"hash/maphash"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// seen counts how often each path was seen in this interval. It is a count-min sketch
// whose counters stop at Rare.First, so that frequent paths do not displace others. A path
// that shares all its counters with others is counted too high; none is counted too low.
// It is not safe for concurrent use.
type seen struct {
	config Rare
	began  time.Time
	kept   int // in this interval
	rows   [pathRows][pathCells]uint8

	overLimit uint64 // rare traces not kept as such because of AtMost
}

const (
	pathRows  = 4
	cellBits  = 14
	pathCells = 1 << cellBits
)

// newSeen returns nil if rare paths are not kept.
func newSeen(c Rare, now time.Time) *seen {
	if c.First == 0 {
		return nil
	}
	return &seen{config: c, began: now}
}

func (s *seen) advance(now time.Time) {
	if now.Sub(s.began) < s.config.Interval {
		return
	}
	s.began, s.kept = now, 0
	clear(s.rows[:])
}

// observe counts the path and reports whether it is among the first of this interval.
func (s *seen) observe(path uint64) bool {
	least := uint8(maxFirst)
	for i := range s.rows {
		least = min(least, s.rows[i][cell(path, i)])
	}
	if int(least) >= s.config.First {
		return false
	}
	for i := range s.rows {
		c := &s.rows[i][cell(path, i)]
		*c = max(*c, least+1)
	}
	return true
}

// take reports whether a further trace may be kept as rare.
func (s *seen) take() bool {
	if s.kept >= s.config.AtMost {
		s.overLimit++
		return false
	}
	s.kept++
	return true
}

func cell(path uint64, row int) uint64 { return path >> (row * cellBits) & (pathCells - 1) }

// walk computes the paths of the traces in one message. It is reused; its tables are as
// large as the largest message needed.
type walk struct {
	spans []step
	nodes map[uint64]uint64 // by trace and span id
	edges map[uint64]struct{}
}

// step is a span with the hash of its node.
type step struct {
	trace      int32
	id, parent uint64
	node       uint64
}

var pathSeed = maphash.MakeSeed()

func (w *walk) reset() {
	w.spans = w.spans[:0]
	clear(w.nodes)
	clear(w.edges)
}

// add records a span of the trace with this index; service is the hash of its service.
func (w *walk) add(trace int32, service uint64, s ptrace.Span) {
	node := mix(service ^ mix(maphash.String(pathSeed, s.Name())+uint64(kindOf(s))))
	st := step{trace, spanKey(trace, s.SpanID()), spanKey(trace, s.ParentSpanID()), node}
	w.spans = append(w.spans, st)
	w.nodes[st.id] = node
}

// paths sets the path of each trace: the sum of the hashes of its distinct edges. An edge
// leads from a span's parent, or from nothing, to the span.
func (w *walk) paths(traces []tally) {
	for i := range w.spans {
		s := &w.spans[i]
		edge := mix(mix(w.nodes[s.parent]) + s.node)
		own := mix(edge + uint64(s.trace))
		if _, known := w.edges[own]; !known {
			w.edges[own] = struct{}{}
			traces[s.trace].path += edge
		}
	}
}

// spanKey distinguishes equal span ids of different traces.
func spanKey(trace int32, id pcommon.SpanID) uint64 {
	var v uint64
	for _, b := range id {
		v = v<<8 | uint64(b)
	}
	if v == 0 {
		return 0
	}
	return mix(v + uint64(trace))
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014).
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
