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
	// raised has the entries, by class, of routes that an alert raises; nil: there are none.
	raised map[*route][][allBoosts]entry
	limit  bucket.Limit // of the budget in traces
	slow   int64        // ns; requests above it are slow
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

// entry is what applies to a span of a class and a route.
func (n *snapshot) entry(class int, r *route) *entry {
	b := r.boost.Load() % allBoosts
	if n.raised != nil {
		if own := n.raised[r]; own != nil {
			return &own[class][b]
		}
	}
	return &n.entries[class][b]
}

// publish makes the next snapshot. The caller holds mu.
func (s *Sampler) publish() {
	n := &snapshot{
		lowest: consistent.Never,
		limit:  limitOf(s.config.Budget.TracesPerSecond),
		slow:   int64(s.config.LatencyThreshold),
	}
	old := s.snapshot.Load()
	if old == nil {
		old = new(snapshot)
	}
	incident := s.incidents.rate()
	n.entries = s.entries(n, incident, old.entries)
	for r, rate := range s.raisedRoutes() {
		if n.raised == nil {
			n.raised = map[*route][][allBoosts]entry{}
		}
		n.raised[r] = s.entries(n, max(incident, rate), old.raised[r])
	}
	n.simplify(s)
	s.snapshot.Store(n)
}

// entries are the rates by class and boosts, with an incident's. Those that are as they were are
// taken from old, if there is one.
func (s *Sampler) entries(n *snapshot, incident float64, old [][allBoosts]entry) [][allBoosts]entry {
	entries := make([][allBoosts]entry, s.classes())
	pressure, factor := s.pressure(), s.budget.factor()
	for class := range entries {
		base := s.baseOf(class)
		for b := range boost(allBoosts) {
			var p float64
			switch s.verdicts[class] {
			case verdictAlways:
				p = 1
			case verdictBase:
				p = s.config.rate(base, b, incident, pressure) * factor
			}
			e := &entries[class][b]
			if old != nil && old[class][b].wanted == p {
				*e = old[class][b]
			} else {
				*e = newEntry(p)
			}
			n.lowest = min(n.lowest, e.threshold)
		}
	}
	return entries
}

// raisedRoutes are the routes that alerts raise, with the rate that they ask for. One that was not
// learned, because there was no room, is what all others share.
func (s *Sampler) raisedRoutes() map[*route]float64 {
	byName := s.incidents.raisedRoutes()
	if byName == nil {
		return nil
	}
	m := make(map[*route]float64, len(byName))
	for name, rate := range byName {
		r := s.routeOf(name)
		m[r] = max(m[r], rate)
	}
	return m
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
	rest := n.entry(0, s.rest)
	uniform := true
	s.everyRoute(func(r *route) {
		uniform = uniform && n.entry(0, r).threshold == rest.threshold
	})
	if uniform {
		n.plain, n.quick, n.state = true, rest.threshold, rest.state
	}
}
