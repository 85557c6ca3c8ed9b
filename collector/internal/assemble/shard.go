package assemble

import (
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// shard holds a part of the traces.
type shard struct {
	mu      sync.Mutex
	a       *Assembler
	traces  map[pcommon.TraceID]*trace
	lists   [lists]list
	free    []*trace
	touched []*trace // by the call in progress
	given   *given
	order   []int32 // room to sort message events in
	spans   int     // held
	bytes   int     // held, estimated
	stats   Stats

	maxSpans, maxBytes int
}

func newShard(a *Assembler) *shard {
	n := a.opts.Shards
	s := &shard{
		a: a, traces: map[pcommon.TraceID]*trace{}, given: newGiven((a.opts.Remember + n - 1) / n),
		maxSpans: max(1, a.opts.MaxSpans/n), maxBytes: max(1, a.opts.MaxBytes/n),
	}
	for i := range s.lists {
		s.lists[i].n = i
	}
	s.stats.Incomplete = map[Reasons]uint64{}
	return s
}

// addAll takes the spans of one call and gives out the traces that they complete.
func (s *shard) addAll(list []arrival, now int64, out *Out) {
	var t *trace
	for i := range list {
		x := &list[i]
		s.stats.Received++
		if s.spans >= s.maxSpans || s.bytes+x.size > s.maxBytes && s.spans > 0 {
			s.makeRoom(x.size, out)
			t = nil
		}
		if t == nil || t.id != x.trace {
			t = s.traces[x.trace]
		}
		if t == nil {
			if was, same := s.given.has(x.trace, &x.item); was {
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
			s.lists[meeting].remove(t)
		}
		if len(t.items) >= s.a.opts.MaxTraceSpans {
			s.part(t, out)
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
	n := len(t.items) - before
	s.stats.Built += uint64(n - 1) // a request's span, made with its first event
	s.spans += n
	size += (n - 1) * spanBytes
	s.bytes += size
	t.bytes += size
}

// judge looks at every trace that the call touched.
func (s *shard) judge(now int64, out *Out) {
	for i, t := range s.touched {
		s.touched[i] = nil
		if t == nil { // given out already
			continue
		}
		t.touched = none
		if !t.complete() {
			continue
		}
		switch {
		case s.a.joins != nil && t.mayMeet():
			t.due = now + int64(max(s.a.opts.SequenceWait, s.a.opts.Settle))
			s.lists[meeting].push(t)
		case s.a.opts.Settle > 0 && !t.sure():
			t.due = now + int64(s.a.opts.Settle)
			s.lists[settling].push(t)
		default:
			s.giveOut(t, 0, out)
		}
	}
	s.touched = s.touched[:0]
}

// mayMeet reports whether a span of the trace may have its other half in
// another trace.
func (t *trace) mayMeet() bool {
	if t.connections == 0 {
		return false
	}
	for i := range t.items {
		if t.items[i].lonely() {
			return true
		}
	}
	return false
}

// lonely is a client span without its server span, or a server span at the top
// of its trace, with a connection and a stream offset.
func (x *item) lonely() bool {
	return x.flags&onConnection != 0 &&
		(x.kind == kindServer && x.parent == 0 || x.kind == kindClient && x.flags&served == 0)
}

// makeRoom gives out the oldest traces until a span of size fits.
func (s *shard) makeRoom(size int, out *Out) {
	for s.spans >= s.maxSpans || s.bytes+size > s.maxBytes && s.spans > 0 {
		t := s.lists[byAge].first
		if t == nil {
			return
		}
		s.giveOut(t, memory, out)
	}
}

// expire gives out what has waited for long enough.
func (s *shard) expire(now int64, out *Out) {
	for _, n := range []int{settling, meeting} {
		for t := s.lists[n].first; t != nil && t.due <= now; t = s.lists[n].first {
			s.giveOut(t, 0, out)
		}
	}
	for t := s.lists[byLast].first; t != nil && now-t.last >= int64(s.a.opts.Expiry); t = s.lists[byLast].first {
		s.giveOut(t, 0, out)
	}
	for t := s.lists[byAge].first; t != nil && now-t.first >= int64(s.a.opts.MaxAge); t = s.lists[byAge].first {
		s.giveOut(t, 0, out)
	}
}

func (s *shard) flush(out *Out) {
	for t := s.lists[byAge].first; t != nil; t = s.lists[byAge].first {
		s.giveOut(t, shutdown, out)
	}
}

// part gives out what a trace has, and goes on with the rest of it.
func (s *shard) part(t *trace, out *Out) {
	t.split = true
	s.emit(t, spanLimit, out)
	s.spans -= len(t.items)
	s.bytes -= t.bytes
	touched, id, links, first, last := t.touched, t.id, t.links, t.first, t.last
	t.reset()
	t.touched, t.id, t.links, t.first, t.last, t.split = touched, id, links, first, last, true
}

// giveOut ends a trace. Early says why it does not wait any longer, which
// counts only if something is missing.
func (s *shard) giveOut(t *trace, early Reasons, out *Out) {
	var r Reasons
	if !t.complete() {
		r = t.reasons() | early
	}
	s.given.add(t.id, t.items)
	if len(t.items) > 0 { // none: all went in parts
		s.emit(t, r, out)
	}
	s.remove(t)
}

// remove forgets a trace.
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
	t.reset()
	if len(s.free) < 1024 {
		s.free = append(s.free, t)
	}
}

// late takes a span whose trace was given out.
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
		s.given.late(x.trace, &x.item)
		out.late(&x.item)
		s.stats.Given++
	}
}
