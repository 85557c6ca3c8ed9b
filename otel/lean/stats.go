package lean

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

// Stats is what a provider has done since it was made, and what it holds. Recorded spans obey
//
//	Ended = Exported + Rejected + Failed + Unsampled + sum of Dropped + QueuedSpans
//
// once no span is about to end. A span that waits for WithKeep's decision counts as ended when that
// is taken.
type Stats struct {
	Started   uint64 // spans started, recorded or not
	Recorded  uint64 // of those, recorded
	Ended     uint64 // recorded spans that ended
	Unsampled uint64 // ended, but not exported: recorded only, or WithKeep's policy did not want them
	Exported  uint64 // spans that the receiver took
	Rejected  uint64 // spans that the receiver refused (partial success)
	Failed    uint64 // spans in requests that failed after all retries
	Requests  uint64 // calls of Exporter.Export
	Dropped   Dropped

	QueuedSpans int64 // finished spans that wait or are being exported
	QueuedBytes int64 // their encoded size
}

// Dropped counts finished spans that were thrown away, by reason.
type Dropped struct {
	QueueFull  uint64 // MaxQueueSize spans waited
	QueueBytes uint64 // MaxQueueBytes of spans waited
	Shutdown   uint64 // ended after Shutdown, or still queued when Shutdown's context ended
	NoExporter uint64 // the provider has no exporter
	Undecided  uint64 // a bound of WithKeep's policy was reached before the decision: see KeepStats
}

// Stats is the provider's Stats at present. While spans come and go, the numbers are not of one
// moment; but they are read backwards, so that no span counts as exported that does not as ended.
func (p *TracerProvider) Stats() Stats {
	var s Stats
	if w := p.worker; w != nil {
		s.Exported, s.Rejected, s.Failed = w.exported.Load(), w.rejected.Load(), w.failed.Load()
		s.Requests = w.requests.Load()
		s.Dropped.Shutdown = w.abandoned.Load()
	}
	s.Dropped.add(p.queue.dropped())
	for _, sh := range p.queue.shards {
		sh.mu.Lock()
		s.Ended += sh.ended
		s.QueuedSpans -= sh.spans
		s.QueuedBytes -= sh.bytes
		sh.mu.Unlock()
		s.Unsampled += sh.recordOnly.Load()
	}
	s.Ended += s.Unsampled + s.Dropped.Undecided
	s.QueuedSpans = max(0, s.QueuedSpans+p.queue.spans.Load())
	s.QueuedBytes = max(0, s.QueuedBytes+p.queue.bytes.Load())
	for _, results := range p.queue.started() {
		for result, n := range results {
			s.Started += n
			if sdktrace.SamplingDecision(result) != sdktrace.Drop {
				s.Recorded += n
			}
		}
	}
	return s
}

// Pressure is how hard it is to get spans away, 0 to 1: the share of the queue that is in use, in
// spans or in bytes, or what the exporter says (its method Pressure, which those of otlphttp and
// otlpgrpc have), whichever is more. It is made for the adaptive sampler: see
// adaptive.Sampler.PollPressure.
func (p *TracerProvider) Pressure() float64 {
	s := p.Stats()
	v := max(float64(s.QueuedSpans)/float64(p.queue.maxSpans), float64(s.QueuedBytes)/float64(p.queue.maxBytes))
	if p.worker != nil {
		if e, ok := p.worker.exporter.(interface{ Pressure() float64 }); ok {
			v = max(v, e.Pressure())
		}
	}
	return min(v, 1)
}

func (d *Dropped) add(o Dropped) {
	d.QueueFull += o.QueueFull
	d.QueueBytes += o.QueueBytes
	d.Shutdown += o.Shutdown
	d.NoExporter += o.NoExporter
	d.Undecided += o.Undecided
}

// dropped sums up what was dropped at the entrance of the queue.
func (q *queue) dropped() (d Dropped) {
	for _, sh := range q.shards {
		sh.mu.Lock()
		d.add(sh.dropped)
		d.Undecided += sh.undecided.Load()
		sh.mu.Unlock()
	}
	return d
}

// started sums up the spans started, by parentOrigin and sdktrace.SamplingDecision.
func (q *queue) started() (n [3][3]uint64) {
	for _, sh := range q.shards {
		for origin := range sh.started {
			for result := range sh.started[origin] {
				n[origin][result] += sh.started[origin][result].Load()
			}
		}
	}
	return n
}

// over sums up the recorded spans that have ended: not sampled, sampled.
func (q *queue) over() (n [2]uint64) {
	for _, sh := range q.shards {
		n[0] += sh.over[0].Load()
		n[1] += sh.over[1].Load()
	}
	return n
}
