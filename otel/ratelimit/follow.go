package ratelimit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/otel/consistent"
)

// window is one measuring interval of the mode Consistent, and the rate that
// is in force in it. It is replaced as a whole.
type window struct {
	start   int64 // ns
	rate    *consistent.Rate
	traffic float64 // arrivals per second, smoothed, as known at the start

	// Only the traces that the rate chooses are counted; divided by the
	// probability they are the arrivals. So what is not chosen writes nothing.
	chosen atomic.Int64
	// refused is set when the bucket was empty for a chosen trace: from then
	// on the probability is not the rate's.
	refused atomic.Bool
}

const measure = int64(time.Second)

// follower turns a limit and the measured traffic into a rate.
type follower struct {
	aim   float64 // traces per second
	surge int64   // so many chosen traces end a window early
	now   atomic.Pointer[window]
}

func (f *follower) set(limit float64, burst int) {
	// With arrivals by chance and a load of 1-h, a bucket of size B overflows
	// with a probability of about exp(-2hB): h = 4/B makes that 3 in 10,000.
	headroom := min(max(4/float64(burst), 0.05), 0.5)
	f.aim = limit * (1 - headroom)
	f.surge = int64(max(8, min(2*limit, math.MaxInt32)))
	f.now.Store(&window{rate: consistent.RateOf(consistent.Always)})
}

// at returns the window that is in force at now, and begins the next one if
// that is due: after a second, or before if the traffic has surged.
func (f *follower) at(now int64) *window {
	w := f.now.Load()
	if now-w.start < measure && w.chosen.Load() < f.surge {
		return w
	}
	next := f.after(w, now)
	if f.now.CompareAndSwap(w, next) {
		return next
	}
	return f.now.Load() // another goroutine was first, with the same data
}

func (f *follower) after(w *window, now int64) *window {
	// A clock that several goroutines read is seen out of order by a little.
	elapsed := float64(max(now-w.start, int64(time.Microsecond)))
	chosen := float64(w.chosen.Load())
	arrivals := chosen * consistent.AdjustedCount(w.rate.Threshold()) / (elapsed / float64(time.Second))
	// The weight of the past halves every second. More traffic counts at once,
	// less only as the past fades: with few arrivals, a pause may be chance.
	past := math.Exp2(-elapsed / float64(measure))
	traffic := w.traffic*past + arrivals*(1-past)
	p := 1.0
	if expected := max(traffic, arrivals); expected > f.aim {
		p = f.aim / expected
	}
	rate := consistent.NewRate(p)
	if rate.Threshold() >= consistent.Never { // nothing chosen could be measured
		rate = consistent.RateOf(consistent.Never - 1)
	}
	return &window{start: now, rate: rate, traffic: traffic}
}
