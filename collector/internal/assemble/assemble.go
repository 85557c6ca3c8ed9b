// Package assemble groups spans into traces and checks whether each trace is complete. It
// also folds the agent's message events into the spans of their requests, joins the two
// halves of a trace that was cut on a connection, and corrects clocks where a parent span
// proves that they differ. It is the Service Tracer of ChainScope (Hong 2026 in
// docs/sources.md, section 3.3, figure 10) as a plain data structure: the caller passes
// spans and the time and receives traces; the package has no goroutines, timers or
// configuration files.
//
// Spans are moved, never copied, and the attributes of a span are read once. The memory
// that waiting spans take is bounded (Options.MaxSpans, MaxBytes).
//
// The package does not guess. A trace is complete only if each of its spans agrees; a
// join needs exactly one client span and one server span at the same position of the same
// connection; a clock is corrected only if a server span lies outside the client span
// that caused it. Which traces are worth keeping is decided elsewhere, in tare_keep.
package assemble

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/route"
)

// Assembler is safe for concurrent use. Traces are spread by their id over shards,
// each with its own lock.
type Assembler struct {
	opts    Options
	epoch   time.Time
	shards  []*shard
	origins origins
	peers   *peers  // nil unless LearnPeers
	joins   *joins  // nil without SequenceWait
	routes  *routes // nil unless LearnRoutes
	scratch sync.Pool
}

// New makes an Assembler; options that are zero get their defaults.
func New(o Options) *Assembler {
	o = o.withDefaults()
	a := &Assembler{opts: o, epoch: time.Now()}
	a.origins.init()
	if o.LearnPeers {
		a.peers = newPeers()
	}
	if o.SequenceWait > 0 {
		a.joins = newJoins(o.SequenceWait)
	}
	if o.LearnRoutes {
		a.routes = &routes{learner: route.NewLearner()}
	}
	for range o.Shards {
		a.shards = append(a.shards, newShard(a))
	}
	a.scratch.New = func() any { return &scratch{byShard: make([][]arrival, len(a.shards))} }
	return a
}

// arrival is a span that Add has read, before its shard takes it.
type arrival struct {
	trace pcommon.TraceID
	item  item
	size  int
}

// scratch holds the lists into which one call of Add sorts its spans by shard.
type scratch struct {
	byShard [][]arrival
	seen    []sighting
}

// Add takes spans, of any traces and in any order, and appends to out the traces
// that they complete. It owns td from then on. Only differences between the values
// of now count, by the monotonic clock where they carry it.
func (a *Assembler) Add(td ptrace.Traces, now time.Time, out *Out) {
	w := a.scratch.Get().(*scratch)
	at := a.since(now)
	var invalid uint64
	rss := td.ResourceSpans()
	for i := range rss.Len() {
		rs := rss.At(i)
		res := a.origins.resource(rs)
		sss := rs.ScopeSpans()
		for j := range sss.Len() {
			ss := sss.At(j)
			spans := ss.Spans()
			if spans.Len() == 0 {
				continue
			}
			from := a.origins.scope(res, ss)
			for k := range spans.Len() {
				if !a.assign(w, spans.At(k), from, at) {
					invalid++
				}
			}
		}
	}
	for i, list := range w.byShard {
		if len(list) == 0 && (i > 0 || invalid == 0) {
			continue
		}
		s := a.shards[i]
		s.mu.Lock()
		if i == 0 && invalid > 0 {
			s.stats.Received += invalid
			s.stats.Dropped[DropInvalidID] += invalid
		}
		s.addAll(list, at, out)
		w.seen = append(w.seen, s.seen...)
		clear(s.seen)
		s.seen = s.seen[:0]
		s.mu.Unlock()
		clear(list) // keep no reference to the spans
		w.byShard[i] = list[:0]
	}
	if a.joins != nil && len(w.seen) > 0 {
		a.joins.see(w.seen, at)
		clear(w.seen)
		w.seen = w.seen[:0]
	}
	a.scratch.Put(w)
}

// assign inspects a span and appends it to the list of its shard. It returns false
// if the span has no valid ids.
func (a *Assembler) assign(w *scratch, sp ptrace.Span, from *origin, at int64) bool {
	trace := sp.TraceID()
	if trace.IsEmpty() || sp.SpanID().IsEmpty() {
		return false
	}
	if a.joins != nil {
		if to, ok := a.joins.alias(trace); ok {
			trace = to
			sp.SetTraceID(to)
		}
	}
	n := a.shardOf(trace)
	list := w.byShard[n]
	if len(list) < cap(list) {
		list = list[:len(list)+1]
	} else {
		list = append(list, arrival{})
	}
	x := &list[len(list)-1]
	w.byShard[n] = list
	x.trace = trace
	x.item.origin = from
	var e ends
	x.size = x.item.inspect(sp, &e)
	if a.peers != nil {
		a.peers.learn(&x.item, &e, at)
	}
	if a.joins != nil && e.hasOffset {
		if a.opts.Renumbered {
			e.sequence = 0
		}
		if x.item.flags&requestEnded != 0 {
			x.item.flags |= onConnection // whose request is seen once its first event is there, too
		} else if g, ok := sight(trace, &x.item, &e); ok {
			x.item.flags |= onConnection
			w.seen = append(w.seen, g)
		}
	}
	return true
}

func (a *Assembler) shardOf(id pcommon.TraceID) int {
	// W3C Trace Context, level 2, makes the last bytes random.
	return int(uint(id[15])|uint(id[14])<<8) % len(a.shards)
}

// Expire emits the traces whose waiting time is over. Call it a few times a second;
// waiting times are as exact as the calls are frequent.
func (a *Assembler) Expire(now time.Time, out *Out) {
	at := a.since(now)
	if a.joins != nil {
		a.joins.due(a, at, out)
	}
	for _, s := range a.shards {
		s.mu.Lock()
		s.expire(at, out)
		s.mu.Unlock()
	}
}

// Oldest returns the time with which the first of the waiting spans was added; false if none
// waits. What is added, expires or joins at the same time may be overlooked.
func (a *Assembler) Oldest() (at time.Time, some bool) {
	least := int64(0)
	for _, s := range a.shards {
		s.mu.Lock()
		if n, ok := s.oldest(); ok && (!some || n < least) {
			least, some = n, true
		}
		s.mu.Unlock()
	}
	return a.epoch.Add(time.Duration(least)), some
}

// Flush emits all traces, complete or not.
func (a *Assembler) Flush(out *Out) {
	for _, s := range a.shards {
		s.mu.Lock()
		s.flush(out)
		s.mu.Unlock()
	}
}

func (a *Assembler) since(now time.Time) int64 { return int64(now.Sub(a.epoch)) }
