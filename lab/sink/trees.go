package sink

import (
	"bytes"
	"slices"

	"github.com/tare-trace/tare/span"
)

// Reasons why a trace is incomplete; it counts under the first that holds.
const (
	NoRoot      = "no root"         // every span has a parent
	ManyRoots   = "several roots"   // more than one has none
	OrphanSpans = "missing parents" // a parent has not come
	Cyclic      = "cycle"           // spans that are their own ancestors
	FewSpans    = "missing spans"   // fewer than expected
)

// Trees counts traces by whether each is one tree. It needs no knowledge of the
// spans that a trace should have.
type Trees struct {
	Traces     int
	Complete   int            // one root, every parent present, and of the expected size at least
	Incomplete map[string]int // traces by reason
	Spans      int            // different ones
	Orphans    int            // spans whose parent is not in their trace
	// Duplicates are spans that came again: an exporter that repeats a request
	// whose answer it missed. They count once.
	Duplicates int
	Invalid    int // spans with invalid ids, as in Tally: part of no trace
	// Background traces have a root that is no server's span, such as those of
	// a connection pool, while other traces of the run have one that is. They
	// are counted here only.
	Background int
	// Sizes: how many traces have how many spans, complete or not.
	Sizes map[int]int
}

// Trees sorts what has been kept into traces. If expected is not 0, a complete
// trace has that many spans or more, unless its root failed, since then the
// request may have ended early. The first trace on a new connection may have
// more spans, those of its set-up. It takes 40 bytes of memory per span.
func (s *Sink) Trees(expected int) (Trees, error) {
	t := Trees{Incomplete: map[string]int{}, Sizes: map[int]int{}}
	var all []spanIDs
	err := s.kept.each(func(body []byte) error {
		return walk(body, func(w *wireSpan) {
			if ids, ok := w.ids(); ok {
				all = append(all, ids)
			} else {
				t.Invalid++
			}
		})
	})
	if err != nil {
		return t, err
	}
	slices.SortFunc(all, func(a, b spanIDs) int {
		if c := bytes.Compare(a.trace[:], b.trace[:]); c != 0 {
			return c
		}
		if c := bytes.Compare(a.id[:], b.id[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.parent[:], b.parent[:])
	})
	received := len(all)
	all = slices.Compact(all)
	t.Spans, t.Duplicates = len(all), received-len(all)
	entries := slices.ContainsFunc(all, isEntry)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].trace == all[0].trace {
			n++
		}
		if trace := all[:n]; entries && background(trace) {
			t.Background++
		} else {
			t.add(trace, expected)
		}
		all = all[n:]
	}
	return t, nil
}

// Of is how many spans there are of the expected ones: those that a trace has beyond them, such as
// of the set-up of a connection, do not make up for those that another one lacks.
func (t *Trees) Of(expected int) int {
	n := 0
	for size, traces := range t.Sizes {
		n += min(size, expected) * traces
	}
	return n
}

func isEntry(s spanIDs) bool { return s.server && s.parent.IsZero() }

// background traces have a root, and it is not a server's.
func background(spans []spanIDs) bool {
	return slices.ContainsFunc(spans, func(s spanIDs) bool { return s.parent.IsZero() }) &&
		!slices.ContainsFunc(spans, isEntry)
}

// add judges one trace, whose spans are sorted by id.
func (t *Trees) add(spans []spanIDs, expected int) {
	t.Traces++
	t.Sizes[len(spans)]++
	roots, orphans, failed := 0, 0, false
	parents := make([]int, len(spans)) // by index; -1: none
	for i, s := range spans {
		parents[i] = -1
		if s.parent.IsZero() {
			roots++
			failed = failed || s.failed
			continue
		}
		at, found := slices.BinarySearchFunc(spans, s.parent, func(e spanIDs, id span.ID) int {
			return bytes.Compare(e.id[:], id[:])
		})
		if found {
			parents[i] = at
		} else {
			orphans++
		}
	}
	t.Orphans += orphans
	reason := ""
	switch {
	case roots == 0:
		reason = NoRoot
	case roots > 1:
		reason = ManyRoots
	case orphans > 0:
		reason = OrphanSpans
	case cyclic(parents):
		reason = Cyclic
	case expected > 0 && len(spans) < expected && !failed:
		reason = FewSpans
	}
	if reason == "" {
		t.Complete++
	} else {
		t.Incomplete[reason]++
	}
}

// cyclic follows parents upwards; each span is walked once.
func cyclic(parents []int) bool {
	reached := make([]int, len(parents)) // by which walk, from 1; 0: by none
	for i := range parents {
		for at := i; at >= 0; at = parents[at] {
			if reached[at] == i+1 {
				return true
			}
			if reached[at] != 0 {
				break
			}
			reached[at] = i + 1
		}
	}
	return false
}
