package sink

import (
	"math"
	"time"

	"github.com/tare-trace/tare/span"
)

// OtherNames is the entry of Tally.Names for spans whose name came after 10,000
// different ones: the number of different names is up to the tracer.
const OtherNames = "(other names)"

const maxNames = 10_000

// Tally is what was kept, in numbers.
type Tally struct {
	Requests int
	Spans    int // as received: one that was sent twice counts twice
	Roots    int // spans without a parent
	Traces   int // different trace ids
	Rooted   int // different trace ids of which a root has come
	// Entries are the traces whose root arrived and is a server's span. A
	// service may also begin other traces, for its connection pool for example.
	Entries int
	// FailedEntries are the Entries whose root has the status error.
	FailedEntries int
	// SlowEntries are the Entries with a root that took longer than was asked for.
	SlowEntries int
	// Invalid spans have a trace id that is not 16 bytes, an id or a parent
	// that is not 8, or a zero trace id or id. They are part of Spans and Names
	// only.
	Invalid int
	Names   map[string]int // spans by name
}

// Count tallies what has been kept, without building spans. A body that is not
// OTLP is an error.
func (s *Sink) Count() (Tally, error) { return s.CountSlow(0) }

// CountSlow is Count; roots that took longer than slow count as slow, 0: none do.
func (s *Sink) CountSlow(slow time.Duration) (Tally, error) {
	t := Tally{Names: map[string]int{}}
	names := map[string]*int{} // looked up without copying the name
	rooted := map[span.TraceID]rootKind{}
	slowRoots := map[span.TraceID]struct{}{}
	one := func(w *wireSpan) {
		t.Spans++
		n := names[string(w.name)]
		if n == nil {
			name := string(w.name)
			if len(names) >= maxNames {
				name = OtherNames
			}
			if n = names[name]; n == nil {
				n = new(int)
				names[name] = n
			}
		}
		*n++
		id, ok := w.ids()
		if !ok {
			t.Invalid++
			return
		}
		root := noRoot
		if id.parent.IsZero() {
			t.Roots++
			root = anyRoot
			if id.server {
				root = serverRoot
				if slow > 0 && id.took > slow {
					slowRoots[id.trace] = struct{}{}
				}
				if id.failed {
					root = failedRoot
				}
			}
		}
		if had, known := rooted[id.trace]; !known || root > had {
			rooted[id.trace] = root
		}
	}
	err := s.kept.each(func(body []byte) error {
		t.Requests++
		return walk(body, one)
	})
	t.Traces, t.SlowEntries = len(rooted), len(slowRoots)
	for _, root := range rooted {
		if root != noRoot {
			t.Rooted++
		}
		if root >= serverRoot {
			t.Entries++
		}
		if root == failedRoot {
			t.FailedEntries++
		}
	}
	for name, n := range names {
		t.Names[name] = *n
	}
	return t, err
}

// rootKind is the best root that has come of a trace.
type rootKind uint8

const (
	noRoot rootKind = iota
	anyRoot
	serverRoot
	failedRoot // a server's, with the status error
)

// spanIDs is a span's place in its trace.
type spanIDs struct {
	trace      span.TraceID
	id, parent span.ID
	server     bool // it is a server's span
	failed     bool // its status is an error
	took       time.Duration
}

// ids are false if they are not OTLP's. A parent of eight zero bytes is none.
func (w *wireSpan) ids() (s spanIDs, ok bool) {
	if len(w.trace) != len(s.trace) || len(w.id) != len(s.id) || len(w.parent) != 0 && len(w.parent) != len(s.parent) {
		return s, false
	}
	copy(s.trace[:], w.trace)
	copy(s.id[:], w.id)
	copy(s.parent[:], w.parent)
	s.server = int32(w.kind) == int32(span.Server) //nolint:gosec // an enumeration, as protobuf reads it
	s.failed = w.failed
	if w.end > w.start { // else it is not known
		s.took = time.Duration(min(w.end-w.start, math.MaxInt64)) //nolint:gosec // not more than that
	}
	return s, !s.trace.IsZero() && !s.id.IsZero()
}
