package adaptive

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/internal/bucket"
)

// snapshot is what decisions are made from. It is immutable; the
// recomputation swaps it for the next one.
type snapshot struct {
	// quick rejects whatever is below it without a look at the span.
	quick consistent.Threshold
	// plain: what quick does not reject is sampled, with state.
	plain bool
	state trace.TraceState

	lowest  consistent.Threshold // of the highest rate
	entries [][allBoosts]entry   // by class
	limit   bucket.Limit         // of the budget in traces
	slow    int64                // ns; requests above it are slow
}

// entry is a rate, ready to be applied.
type entry struct {
	wanted    float64 // threshold is rounded
	threshold consistent.Threshold
	state     trace.TraceState
}

func newEntry(p float64) entry {
	th := consistent.FromProbability(p).Round(consistent.Precision)
	return entry{wanted: p, threshold: th, state: consistent.State(th)}
}

// publish makes the next snapshot. The caller holds mu.
func (s *Sampler) publish() {
	old := s.snapshot.Load()
	n := &snapshot{
		lowest:  consistent.Never,
		entries: make([][allBoosts]entry, s.classes()),
		limit:   limitOf(s.config.Budget.TracesPerSecond),
		slow:    int64(s.config.LatencyThreshold),
	}
	incident, pressure, factor := s.incidents.rate(), s.pressure(), s.budget.factor()
	for class := range n.entries {
		base := s.baseOf(class)
		for b := range boost(allBoosts) {
			var p float64
			switch s.verdicts[class] {
			case verdictAlways:
				p = 1
			case verdictBase:
				p = s.config.rate(base, b, incident, pressure) * factor
			}
			e := &n.entries[class][b]
			if old != nil && old.entries[class][b].wanted == p {
				*e = old.entries[class][b]
			} else {
				*e = newEntry(p)
			}
			n.lowest = min(n.lowest, e.threshold)
		}
	}
	n.simplify(s)
	s.snapshot.Store(n)
}

// simplify finds what can be decided by a threshold alone. With a limit,
// nothing can: arrivals have to be counted.
func (n *snapshot) simplify(s *Sampler) {
	if !n.limit.IsZero() {
		return // quick is 0 and rejects nothing
	}
	n.quick = n.lowest
	if s.rules.Len() > 0 {
		return
	}
	rest := &n.entries[0][s.rest.boost.Load()]
	uniform := true
	s.everyRoute(func(r *route) {
		uniform = uniform && n.entries[0][r.boost.Load()].threshold == rest.threshold
	})
	if uniform {
		n.plain, n.quick, n.state = true, rest.threshold, rest.state
	}
}
