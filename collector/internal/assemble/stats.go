package assemble

// Reasons why a span is dropped: indices of Stats.Dropped.
const (
	DropInvalidID = iota // no trace id or no span id
	DropDuplicate        // the same span once more
	DropLate             // its trace was given out, and late spans are not wanted
	DropMessage          // a message event, and these are not wanted
	drops
)

// DropReasons names them.
var DropReasons = [drops]string{"invalid_id", "duplicate", "late", "message"}

// Stats are counts of spans if not said otherwise, since the start. Received +
// Built = Given + Merged + the sum of Dropped + Spans.
type Stats struct {
	Received  uint64
	Built     uint64 // made of the events of a request
	Given     uint64 // given out
	Merged    uint64 // events that became part of a request's span
	Dropped   [drops]uint64
	Late      uint64 // came after their trace was given out
	Conflicts uint64 // kept though another span has their id

	Complete   uint64             // traces given out
	Incomplete map[Reasons]uint64 // traces, or parts of one, given out
	Moved      uint64             // spans whose times were corrected, or marked
	Unproven   uint64             // traces whose spans contradict each other about a clock
	Joins      [joinOutcomes]uint64

	// Held now.
	Spans, Bytes, Traces int
}

// HostOffset is what was last added to the times of a host.
type HostOffset struct {
	Host   string // the attribute's key, "=" and its value
	Offset int64  // ns
	Traces uint64 // in which it was
}

// Stats are those of all shards together.
func (a *Assembler) Stats() Stats {
	sum := Stats{Incomplete: map[Reasons]uint64{}}
	for _, s := range a.shards {
		s.mu.Lock()
		x := &s.stats
		sum.Received += x.Received
		sum.Built += x.Built
		sum.Given += x.Given
		sum.Merged += x.Merged
		for i, n := range x.Dropped {
			sum.Dropped[i] += n
		}
		sum.Late += x.Late
		sum.Conflicts += x.Conflicts
		sum.Complete += x.Complete
		for r, n := range x.Incomplete {
			sum.Incomplete[r] += n
		}
		sum.Moved += x.Moved
		sum.Unproven += x.Unproven
		sum.Spans += s.spans
		sum.Bytes += s.bytes
		sum.Traces += len(s.traces)
		s.mu.Unlock()
	}
	if a.joins != nil {
		sum.Joins = a.joins.counts()
	}
	return sum
}

// maxOffsets is how many hosts are published: each is a time series.
const maxOffsets = 1000

// HostOffsets are the hosts whose times were ever corrected or marked, 1000 of
// them at most.
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
