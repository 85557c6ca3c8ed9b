package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run found.
type Result struct {
	OK, Failed uint64
	Aborted    uint64 // in flight when the context ended; neither OK nor failed
	Elapsed    time.Duration
	Next       uint64 // the first number that was not sent: First of the next run
	Dials      uint64 // connections that were opened

	// Latency of the requests answered well, in nanoseconds to 0.1%: from
	// before the write (with Close: before the dial) to the last byte.
	Latency *hdrhistogram.Histogram

	// Errors counts the failures by reason, MaxReasons of them at most; the
	// rest is counted as "other".
	Errors map[string]uint64
}

// MaxReasons bounds Result.Errors.
const MaxReasons = 20

// PerSecond is the rate of requests answered well.
func (r Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.OK) / r.Elapsed.Seconds()
}

func (g *Generator) collect(elapsed time.Duration) Result {
	r := Result{Elapsed: elapsed, Latency: g.latency.merge(), Errors: map[string]uint64{}}
	for _, w := range g.workers {
		r.OK += w.ok.Load()
		r.Failed += w.failed.Load()
		r.Aborted += w.aborted
		r.Dials += w.dials
		for reason, n := range w.errors {
			if _, known := r.Errors[reason]; !known && len(r.Errors) >= MaxReasons {
				reason = "other"
			}
			r.Errors[reason] += n
		}
	}
	r.Next = g.opts.First + g.begun()
	return r
}

// begun is how many numbers were given out: workers that find no more to do
// have counted too far.
func (g *Generator) begun() uint64 {
	n := g.next.Load()
	if g.opts.Requests > 0 {
		n = min(n, g.opts.Requests)
	}
	return n
}

// latencies is a histogram in a few parts, each behind a lock that is nearly
// always free. One part per connection would be 200 KiB times 5,000.
type latencies struct{ parts [8]latencyPart }

type latencyPart struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
	_  [40]byte // one cache line each
}

// From 1 µs to 10 min at three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

func newLatencies() *latencies {
	l := &latencies{}
	for i := range l.parts {
		l.parts[i].h = newHistogram()
	}
	return l
}

func (l *latencies) record(part int, d time.Duration) {
	p := &l.parts[part%len(l.parts)]
	p.mu.Lock()
	// The error says "too large": longer than ten minutes, and a request
	// that was answered is worth counting all the same.
	if p.h.RecordValue(int64(d)) != nil {
		_ = p.h.RecordValue(p.h.HighestTrackableValue())
	}
	p.mu.Unlock()
}

func (l *latencies) merge() *hdrhistogram.Histogram {
	all := newHistogram()
	for i := range l.parts {
		all.Merge(l.parts[i].h)
	}
	return all
}
