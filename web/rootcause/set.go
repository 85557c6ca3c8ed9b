package rootcause

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/waterfall"
)

// Set collects traces for a diagnosis. It keeps some hundred bytes of each, and not its
// spans.
type Set struct {
	places  *places
	traces  []observation
	without int  // traces without a root
	more    bool // there are more than were read
	large   int  // traces that are too large to be read as a whole
	retro   int  // traces that stand for none, since they were kept retroactively
}

// NewSet returns an empty Set.
func NewSet() *Set { return &Set{places: newPlaces()} }

// part is what a diagnosis reads of a trace's spans.
var part = store.Part{Keys: func(key string) bool {
	var p semconv.Peer
	return waterfall.Reads(key) || key == semconv.Linking || p.Field(key) != nil
}}

// Add adds one trace, all of its spans. It moves times in td where clocks are wrong.
func (s *Set) Add(td ptrace.Traces) {
	switch o, ok := s.observe(td); {
	case !ok:
		s.without++
	case o.weight == 0:
		s.retro++
	default:
		s.traces = append(s.traces, o)
	}
}

// Limits of Options.Traces.
const (
	DefaultTraces = 5000
	MaxTraces     = 100_000
)

// pageSize is how many traces one search returns.
const pageSize = 1000

// Read adds the newest traces of the store that match the query, whose limit is ignored: at
// most n, and none once until has passed (the zero time: never). A condition on the duration
// would remove what slow traces are compared with, so the caller should not set one.
func (s *Set) Read(ctx context.Context, from *store.Store, q store.Query, n int, until time.Time) error {
	late := func() bool { return !until.IsZero() && time.Now().After(until) }
	for read := 0; ; {
		q.Limit = min(pageSize, n-read)
		if q.Limit <= 0 || late() {
			s.more = true
			return nil
		}
		found, err := from.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, t := range found.Traces {
			if late() {
				s.more = true
				return nil
			}
			if t.Retro != 0 {
				s.retro++
				continue
			}
			found, err := from.FindPart(ctx, t.TraceID, part)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue // it expired meanwhile, or it is damaged, and what is left would mislead
			}
			if err != nil {
				return err
			}
			if read++; found.Cut.Spans > 0 {
				s.large++
				continue
			}
			s.Add(found.Traces)
		}
		if found.Next == "" {
			return nil
		}
		q.After = found.Next
	}
}
