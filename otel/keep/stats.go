package keep

// Cause says why spans or local traces were dropped.
type Cause uint8

// Causes.
const (
	Unwanted     Cause = iota // the policy gave no reason to keep the trace
	TooManyOpen               // MaxTraces: the oldest open trace was evicted
	TooManyBytes              // MaxBytes: the oldest buffered trace was evicted, or a span alone is larger
	TooManySpans              // MaxSpansPerTrace
	TooOld                    // MaxAge: the local root did not end
	Late                      // ended after its trace had been dropped
	ShutDown                  // undecided when the processor was shut down, or ended after that
	numCauses    = iota
)

var causeNames = [numCauses]string{
	"unwanted", "too many open", "too many bytes", "too many spans", "too old", "late", "shut down",
}

// String returns the cause's name in lower case.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// Stats is what a [Processor] holds, and what it has done so far.
type Stats struct {
	// OpenTraces are the local traces whose local root has not ended,
	// RememberedTraces the kept ones that late spans may still join.
	OpenTraces, RememberedTraces int
	// BufferedSpans wait for the decision; BufferedBytes is their estimated size.
	BufferedSpans, BufferedBytes int

	// TracesKept counts exported local traces by [Reason]. A trace that only
	// the head sampler took is counted (as Head) if it had to wait.
	TracesKept [numReasons]uint64
	// TracesPartial counts those of them that lack spans because of a bound.
	TracesPartial uint64
	// TracesDropped counts by [Cause].
	TracesDropped [numCauses]uint64

	// SpansPassed were handed on as the head sampler had taken them, SpansKept
	// because of the policy.
	SpansPassed, SpansKept uint64
	// SpansDropped counts by [Cause].
	SpansDropped [numCauses]uint64

	// Unlearned counts local roots without a learned threshold because there
	// are more names than Learn.Operations.
	Unlearned uint64
}

// counters is the part of Stats that a shard counts.
type counters struct {
	tracesKept    [numReasons]uint64
	tracesPartial uint64
	tracesDropped [numCauses]uint64
	spansPassed   uint64
	spansKept     uint64
	spansDropped  [numCauses]uint64
}

func (s *Stats) add(c *counters) {
	for i, n := range c.tracesKept {
		s.TracesKept[i] += n
	}
	s.TracesPartial += c.tracesPartial
	for i, n := range c.tracesDropped {
		s.TracesDropped[i] += n
	}
	s.SpansPassed += c.spansPassed
	s.SpansKept += c.spansKept
	for i, n := range c.spansDropped {
		s.SpansDropped[i] += n
	}
}

// Stats returns a snapshot. Numbers of different shards are taken one after the
// other; they add up exactly when no span is being processed.
func (p *Processor) Stats() Stats {
	var out Stats
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		out.add(&s.counters)
		out.OpenTraces += s.open.Len
		out.RememberedTraces += s.late.Len
		out.BufferedSpans += s.spans
		out.BufferedBytes += s.bytes
		s.mu.Unlock()
		out.SpansPassed += s.passed.Load()
		out.SpansDropped[ShutDown] += s.ignored.Load()
	}
	if p.policy.learned != nil {
		out.Unlearned = p.policy.learned.unlearned.Load()
	}
	return out
}
