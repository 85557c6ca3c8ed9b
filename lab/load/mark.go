package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally is what one loop counts in one interval.
type tally struct {
	ok, failed, aborted, dials, begun uint64
	blocked                           time.Duration
	latency, sent, lag                *hdrhistogram.Histogram
	errors                            map[string]uint64
}

func newTally() *tally {
	return &tally{latency: newHistogram(), sent: newHistogram(), lag: newHistogram(), errors: map[string]uint64{}}
}

func (t *tally) add(o *tally) {
	t.ok += o.ok
	t.failed += o.failed
	t.aborted += o.aborted
	t.dials += o.dials
	t.begun += o.begun
	t.blocked += o.blocked
	t.latency.Merge(o.latency)
	t.sent.Merge(o.sent)
	t.lag.Merge(o.lag)
	for reason, n := range o.errors {
		t.fail(reason, n)
	}
}

func (t *tally) fail(reason string, n uint64) {
	if _, known := t.errors[reason]; !known && len(t.errors) >= MaxReasons {
		reason = "other"
	}
	t.errors[reason] += n
}

// cut is the end of an interval and the beginning of the next.
type cut struct {
	at    time.Duration // since the start
	due   uint64        // requests that were due by then
	begun uint64        // numbers that were given out by then
	cpu   time.Duration // of the loops' threads, until then
}

// Mark returns what happened since the last Mark, or since Start, and begins a
// new interval. It may be called at any time, by any goroutine, under full load:
// the load waits for no more than the exchange of a few pointers.
//
// Intervals are exact: they follow each other without a gap by the generator's
// clock, and every request that ends is counted, with its latency, in the one
// interval in which it ended. So the intervals up to one that is taken after Wait
// returned add up to Wait's result. A request in flight at the mark has its Lag
// and its place in Offered in the interval in which it was begun and due, and the
// rest in the one in which it ends; Blocked time is divided at the mark. Next and
// Limits are as of the mark. After the run, the first Mark returns the rest, with
// Unsent, and further ones nothing.
func (g *Generator) Mark() Result {
	parts := make([]*tally, len(g.loops))
	for i := range parts {
		parts[i] = newTally()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// With all loops held, no request can end before the cut and be counted
	// after it: a loop takes the time of an end while it holds its lock.
	for _, l := range g.loops {
		l.mu.Lock()
	}
	from, to := g.last, g.final
	if !g.over {
		to = g.cut()
	}
	for i, l := range g.loops {
		l.settle(to.at)
		l.tally, parts[i] = parts[i], l.tally
	}
	for _, l := range g.loops {
		l.mu.Unlock()
	}
	g.last = to
	sum := parts[0]
	for _, t := range parts[1:] {
		sum.add(t)
	}
	if g.total == nil {
		g.total = newTally()
	}
	g.total.add(sum)
	return g.resultOf(sum, from, to)
}

// finish is called when the loops are gone. What they counted since the last
// Mark stays with them, for the next one.
func (g *Generator) finish() Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over, g.final = true, g.cut()
	sum := newTally()
	if g.total != nil {
		sum.add(g.total)
	}
	for _, l := range g.loops {
		sum.add(l.tally)
	}
	return g.resultOf(sum, cut{}, g.final)
}

// cut is called with all loops held.
func (g *Generator) cut() cut {
	at, cpu := g.clock(), time.Duration(0)
	for _, l := range g.loops {
		cpu += l.thread.cpu()
	}
	return cut{at, g.schedule.due(at, time.Duration(g.end.Load())), g.begun(), cpu}
}

func (g *Generator) resultOf(t *tally, from, to cut) Result {
	r := Result{
		OK:        t.ok,
		Failed:    t.failed,
		Aborted:   t.aborted,
		Elapsed:   to.at - from.at,
		Next:      g.opts.First + to.begun,
		Dials:     t.dials,
		Offered:   t.begun,
		Blocked:   t.blocked,
		CPU:       to.cpu - from.cpu,
		Latency:   t.latency,
		SinceSent: t.sent,
		Lag:       t.lag,
		Errors:    t.errors,
	}
	if g.opts.Rate > 0 {
		r.Offered = to.due - from.due
		if g.over && from != to && to.due > to.begun {
			r.Unsent = to.due - to.begun
		}
	}
	r.Limits = limits(&r, &g.opts, t.begun)
	return r
}
