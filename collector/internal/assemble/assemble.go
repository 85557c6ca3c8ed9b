// Package assemble makes whole traces of spans: it groups them by trace, looks
// for what is missing, folds message events into the spans of their requests,
// joins the halves of a trace that met on one connection, and corrects clocks
// where parents prove them wrong. It is the Service Tracer of the ChainScope
// paper (section 3.3, figure 10) without the framework around it: spans and a
// clock in, traces out; no goroutines, no timers, no configuration files.
//
// It works in place: spans are moved, never copied, and the attributes of a
// span are read once. What it holds is bounded (Options.MaxSpans, MaxBytes).
//
// It refuses to guess. A trace is complete only when everything in it says so;
// a join needs one client and one server on the same connection at the same
// place of its stream; a clock is corrected only where a server span lies
// outside the client span that caused it. It keeps no trace because it is
// interesting and drops none because it is not: see tare_keep.
package assemble

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Assembler is safe for concurrent use. Traces are spread over shards by their
// id; each shard has a lock of its own.
type Assembler struct {
	opts    Options
	epoch   time.Time
	shards  []*shard
	origins origins
	peers   *peers // nil: not learned
	joins   *joins // nil: no joins
	sorting sync.Pool
}

// New makes an assembler. The zero value of an option means its default.
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
	for range o.Shards {
		a.shards = append(a.shards, newShard(a))
	}
	a.sorting.New = func() any { return &sorting{byShard: make([][]arrival, len(a.shards))} }
	return a
}

// arrival is a span on its way to its shard.
type arrival struct {
	trace pcommon.TraceID
	item  item
	size  int
}

// sorting is the room in which one call spreads its spans over the shards.
type sorting struct {
	byShard [][]arrival
	seen    []sighting
}

// Add takes spans, of any traces and in any order, and appends to out what they
// complete. It owns td from then on. Times are compared by their monotonic
// part where they have one.
func (a *Assembler) Add(td ptrace.Traces, now time.Time, out *Out) {
	w := a.sorting.Get().(*sorting)
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
				if !a.sort(w, spans.At(k), from, at) {
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
		s.mu.Unlock()
		clear(list) // lets go of the spans
		w.byShard[i] = list[:0]
	}
	if a.joins != nil && len(w.seen) > 0 {
		a.joins.see(w.seen, at)
		clear(w.seen)
		w.seen = w.seen[:0]
	}
	a.sorting.Put(w)
}

// sort inspects a span and puts it on the list of its shard; false if it has no
// valid ids.
func (a *Assembler) sort(w *sorting, sp ptrace.Span, from *origin, at int64) bool {
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
		if g, ok := sight(trace, &x.item, &e); ok {
			x.item.flags |= onConnection
			w.seen = append(w.seen, g)
		}
	}
	return true
}

func (a *Assembler) shardOf(id pcommon.TraceID) int {
	// The last bytes are the random ones of the W3C's trace context, level 2.
	return int(uint(id[15])|uint(id[14])<<8) % len(a.shards)
}

// Expire gives out what has waited for long enough. Call it a few times a
// second; how often decides how exactly waiting times are kept.
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

// Flush gives out everything, complete or not.
func (a *Assembler) Flush(out *Out) {
	for _, s := range a.shards {
		s.mu.Lock()
		s.flush(out)
		s.mu.Unlock()
	}
}

func (a *Assembler) since(now time.Time) int64 { return int64(now.Sub(a.epoch)) }
