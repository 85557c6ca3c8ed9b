package assemble

// Reasons why a span is dropped: indices of Stats.Dropped.
const (
	DropInvalidID = iota // no trace id or no span id
	DropDuplicate        // the span arrived a second time
	DropLate             // its trace was emitted, and late spans are dropped
	DropMessage          // a message event, and these are dropped
	DropDouble           // the other span of its call is kept, by a service's rule
	drops
)

// DropReasons are the names of the reasons.
var DropReasons = [drops]string{"invalid_id", "duplicate", "late", "message", "double"}

// Stats are counts since the start, of spans if not said otherwise. Received + Built =
// Emitted + Merged + the sum of Dropped + Spans.
type Stats struct {
	Received  uint64
	Built     uint64 // made from the events of a request
	Emitted   uint64
	Merged    uint64 // events that became part of a request's span
	Dropped   [drops]uint64
	Late      uint64 // arrived after their trace was emitted
	Conflicts uint64 // have the id of another span, and are kept

	Complete   uint64             // traces emitted
	Unlinked   map[string]uint64  // traces emitted that are semconv.StateUnlinked, by semconv.EndsAt and the others, with commas between
	Incomplete map[Reasons]uint64 // traces, or parts of one, emitted
	Moved      uint64             // spans whose times were corrected, or only marked
	Unproven   uint64             // traces whose spans contradict each other about a clock
	Joins      [joinOutcomes]uint64
	Doubles    [doubleOutcomes]uint64
	Routes     [routeOutcomes]uint64 // HTTP spans that were named by method or path

	// Waiting now.
	Spans, Bytes, Traces int
}

// HostOffset is the offset that was last added to the times of a host.
type HostOffset struct {
	Host   string // the attribute's key, "=" and its value
	Offset int64  // ns
	Traces uint64 // in which its times were off
}

// Stats returns the sum over all shards.
func (a *Assembler) Stats() Stats {
	sum := Stats{Unlinked: map[string]uint64{}, Incomplete: map[Reasons]uint64{}}
	for _, s := range a.shards {
		s.mu.Lock()
		x := &s.stats
		sum.Received += x.Received
		sum.Built += x.Built
		sum.Emitted += x.Emitted
		sum.Merged += x.Merged
		for i, n := range x.Dropped {
			sum.Dropped[i] += n
		}
		sum.Late += x.Late
		sum.Conflicts += x.Conflicts
		sum.Complete += x.Complete
		for kinds, n := range x.Unlinked {
			sum.Unlinked[kinds] += n
		}
		for r, n := range x.Incomplete {
			sum.Incomplete[r] += n
		}
		for i, n := range x.Doubles {
			sum.Doubles[i] += n
		}
		sum.Moved += x.Moved
		sum.Unproven += x.Unproven
		sum.Spans += s.spans
		sum.Bytes += s.bytes
		sum.Traces += len(s.traces)
		s.mu.Unlock()
	}
	if a.routes != nil {
		for i := range a.routes.counts {
			sum.Routes[i] = a.routes.counts[i].Load()
		}
	}
	if a.joins != nil {
		sum.Joins = a.joins.counts()
	}
	return sum
}

// maxOffsets bounds the hosts that are published, since each is a time series.
const maxOffsets = 1000

// HostOffsets returns hosts whose times were corrected or marked, at most 1000.
func (a *Assembler) HostOffsets() (list []HostOffset) {
	a.origins.mu.Lock()
	defer a.origins.mu.Unlock()
	for _, h := range a.origins.hosts {
		if n := h.traces.Load(); n > 0 && len(list) < maxOffsets {
			list = append(list, HostOffset{h.name, h.offset.Load(), n})
		}
	}
	return list
}
