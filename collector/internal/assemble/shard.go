package assemble

import (
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// shard holds the traces whose ids fall to it.
type shard struct {
	mu      sync.Mutex
	a       *Assembler
	traces  map[pcommon.TraceID]*trace
	lists   [lists]list
	free    []*trace
	touched []*trace         // traces that got spans in the current call
	adopted map[*trace]int64 // traces with spans that arrived before their first: they joined, and when
	history *history
	order   []int32    // scratch: message events, sorted; the way up a trace
	depths  []int32    // scratch: of the spans of a trace
	places  []place    // scratch: spans of a trace, in the order in which they are emitted
	seen    []sighting // of requests that are made from events; Add takes them
	spans   int        // waiting
	bytes   int        // of these, estimated
	stats   Stats

	maxSpans, maxBytes int
}

func newShard(a *Assembler) *shard {
	n := a.opts.Shards
	s := &shard{
		a: a, traces: map[pcommon.TraceID]*trace{}, adopted: map[*trace]int64{}, history: newHistory((a.opts.Remember + n - 1) / n),
		maxSpans: max(1, a.opts.MaxSpans/n), maxBytes: max(1, a.opts.MaxBytes/n),
	}
	for i := range s.lists {
		s.lists[i].n = i
	}
	s.stats.Unlinked, s.stats.Incomplete = map[string]uint64{}, map[Reasons]uint64{}
	return s
}

// addAll takes the spans of one call of Add and emits the traces that they complete.
func (s *shard) addAll(list []arrival, now int64, out *Out) {
	var t *trace
	for i := range list {
		x := &list[i]
		s.stats.Received++
		if s.spans >= s.maxSpans || s.bytes+x.size > s.maxBytes && s.spans > 0 {
			s.evict(x.size, out)
			t = nil
		}
		if t == nil || t.id != x.trace {
			t = s.traces[x.trace]
		}
		if t == nil {
			if was, same := s.history.has(x.trace, &x.item); was {
				s.late(x, same, out)
				continue
			}
			t = s.open(x.trace, now)
		}
		if t.touched == none {
			t.touched = len(s.touched)
			s.touched = append(s.touched, t)
			t.last = now
			s.lists[byLast].renew(t)
			s.lists[settling].remove(t)
			s.lists[joinable].remove(t)
		}
		if len(t.items) >= s.a.opts.MaxTraceSpans {
			s.emitPart(t, out)
		}
		s.put(t, &x.item, x.size)
	}
	s.judge(now, out)
}

func (s *shard) open(id pcommon.TraceID, now int64) *trace {
	var t *trace
	if n := len(s.free); n > 0 {
		t, s.free = s.free[n-1], s.free[:n-1]
	} else {
		t = &trace{touched: none}
	}
	t.id, t.first, t.last = id, now, now
	s.traces[id] = t
	s.lists[byAge].push(t)
	s.lists[byLast].push(t)
	return t
}

// put adds a span to a trace and counts it.
func (s *shard) put(t *trace, x *item, size int) {
	before := len(t.items)
	switch t.add(x) {
	case duplicate:
		s.stats.Dropped[DropDuplicate]++
		return
	case conflict:
		s.stats.Conflicts++
	}
	s.takeSeen(t)
	n := len(t.items) - before
	s.stats.Built += uint64(n - 1) // the first event of a request also adds its span
	s.spans += n
	size += (n - 1) * spanBytes
	s.bytes += size
	t.bytes += size
}

// judge decides for each trace that got spans in this call whether it is emitted now
// or waits.
func (s *shard) judge(now int64, out *Out) {
	for i, t := range s.touched {
		s.touched[i] = nil
		if t == nil { // emitted already
			continue
		}
		t.touched = none
		complete := t.complete()
		s.takeSeen(t)
		if !complete || t.doubles > 0 && t.awaitsDouble() {
			continue
		}
		switch {
		case s.a.joins != nil && t.mayJoin():
			t.due = now + int64(max(s.a.opts.SequenceWait, s.a.opts.Settle))
			s.lists[joinable].push(t)
		case s.a.opts.Settle > 0 && !t.final():
			t.due = now + int64(s.a.opts.Settle)
			s.lists[settling].push(t)
		default:
			s.finish(t, 0, out)
		}
	}
	s.touched = s.touched[:0]
}

// takeSeen takes over where the requests of a trace were seen.
func (s *shard) takeSeen(t *trace) {
	for i := range t.seen {
		if s.a.opts.Renumbered {
			t.seen[i].position.sequence = 0
		}
	}
	s.seen = append(s.seen, t.seen...)
	clear(t.seen)
	t.seen = t.seen[:0]
}

// mayJoin reports whether some span of the trace may have its other half in another
// trace.
func (t *trace) mayJoin() bool {
	if t.connections == 0 {
		return false
	}
	for i := range t.items {
		if t.items[i].unpaired() {
			return true
		}
	}
	return false
}

// unpaired reports whether the span has a stream position but no other half: a client
// span without its server span, or a server span without a parent.
func (x *item) unpaired() bool {
	return x.flags&onConnection != 0 &&
		(x.kind == kindServer && x.parent == 0 || x.kind == kindClient && x.flags&served == 0)
}

// evict emits the oldest traces until a span of the given size fits.
func (s *shard) evict(size int, out *Out) {
	for s.spans >= s.maxSpans || s.bytes+size > s.maxBytes && s.spans > 0 {
		t := s.lists[byAge].first
		if t == nil {
			return
		}
		s.finish(t, memory, out)
	}
}

// expire emits the traces whose waiting time is over.
func (s *shard) expire(now int64, out *Out) {
	for _, n := range []int{settling, joinable} {
		for t := s.lists[n].first; t != nil && t.due <= now; t = s.lists[n].first {
			s.finish(t, 0, out)
		}
	}
	for t := s.lists[byLast].first; t != nil && now-t.last >= int64(s.a.opts.Expiry); t = s.lists[byLast].first {
		s.finish(t, 0, out)
	}
	for t := s.lists[byAge].first; t != nil && now-t.first >= int64(s.a.opts.MaxAge); t = s.lists[byAge].first {
		s.finish(t, 0, out)
	}
}

// since is when the first of the trace's spans arrived.
func (t *trace) since(s *shard) int64 {
	if at, ok := s.adopted[t]; ok {
		return at
	}
	return t.first
}

// oldest is when the first of the spans that wait arrived; false if none waits.
func (s *shard) oldest() (int64, bool) {
	t := s.lists[byAge].first
	if t == nil {
		return 0, false
	}
	at := t.first
	for _, since := range s.adopted {
		at = min(at, since)
	}
	return at, true
}

func (s *shard) flush(out *Out) {
	for t := s.lists[byAge].first; t != nil; t = s.lists[byAge].first {
		s.finish(t, shutdown, out)
	}
}

// emitPart emits the spans that a large trace has so far; the trace stays open.
func (s *shard) emitPart(t *trace, out *Out) {
	t.split = true
	s.emit(t, spanLimit, out)
	s.spans -= len(t.items)
	s.bytes -= t.bytes
	touched, id, links, first, last := t.touched, t.id, t.links, t.first, t.last
	t.reset()
	t.touched, t.id, t.links, t.first, t.last, t.split = touched, id, links, first, last, true
}

// finish emits a trace and forgets it. If the trace is incomplete, early is added to
// its reasons: why it was not allowed to wait any longer.
func (s *shard) finish(t *trace, early Reasons, out *Out) {
	var r Reasons
	if !t.complete() {
		r = t.reasons() | early
	}
	s.history.add(t.id, t.items)
	if len(t.items) > 0 { // else all were emitted in parts
		s.emit(t, r, out)
	}
	s.remove(t)
}

// remove takes a trace out of the shard.
func (s *shard) remove(t *trace) {
	s.spans -= len(t.items)
	s.bytes -= t.bytes
	if t.touched != none {
		s.touched[t.touched] = nil
	}
	for i := range s.lists {
		s.lists[i].remove(t)
	}
	delete(s.traces, t.id)
	delete(s.adopted, t)
	t.reset()
	if len(s.free) < 1024 {
		s.free = append(s.free, t)
	}
}

// late handles a span whose trace was emitted before.
func (s *shard) late(x *arrival, duplicate bool, out *Out) {
	switch {
	case duplicate:
		s.stats.Dropped[DropDuplicate]++
	case s.a.opts.DropLate:
		s.stats.Late++
		s.stats.Dropped[DropLate]++
	case s.a.opts.Messages == DropMessages && x.item.flags&message != 0:
		s.stats.Late++
		s.stats.Dropped[DropMessage]++
	default:
		s.stats.Late++
		s.history.late(x.trace, &x.item)
		if s.a.routes != nil {
			s.a.routes.name(&x.item)
		}
		out.late(&x.item)
		s.stats.Emitted++
	}
}
