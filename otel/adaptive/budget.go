package adaptive

import (
	"math"
	"time"
)

// budgetControl finds the factor that keeps all rates together within the
// budget. Each limit has a factor, and the smallest of them is applied.
type budgetControl struct {
	traces, cpu, p99 float64

	demand   float64 // traces/s that the rates ask for, last beat
	cores    float64 // last beat
	cpuTime  time.Duration
	cpuRead  bool // cpuTime was read while the limit was on
	duration time.Duration
	recent   window        // for the p99: until there are enough
	age      time.Duration // of recent
	p99Read  bool          // as cpuRead
	readCPU  func() (time.Duration, bool)
}

const (
	// fill is how much of the token bucket's rate the factor aims at: what the
	// bucket drops is not in th, so it should drop rarely.
	fill = 0.95
	// smallest is the factor that the CPU and p99 limits stop at: from 0 no
	// feedback leads back.
	smallest = 1e-4
	// enoughForP99 observations make a p99 more than the largest of them.
	enoughForP99 = 100
)

func newBudgetControl() budgetControl {
	return budgetControl{traces: 1, cpu: 1, p99: 1, readCPU: cpuTime}
}

func (b *budgetControl) factor() float64 { return min(b.traces, b.cpu, b.p99) }

// configure forgets what belongs to limits that are off now.
func (b *budgetControl) configure(limits Budget) {
	if limits.TracesPerSecond == 0 {
		b.traces, b.demand = 1, 0
	}
	if limits.CPUCores == 0 {
		b.cpu, b.cores, b.cpuRead = 1, 0, false
	}
	if limits.P99 == 0 {
		b.p99, b.duration, b.recent, b.age, b.p99Read = 1, 0, window{}, 0, false
	}
}

// planTraces needs no feedback: what the rates would sample is known.
func (b *budgetControl) planTraces(limit, always, others float64) {
	b.demand = always + others
	left := max(limit*sustained*fill-always, 0)
	if others <= left {
		b.traces = 1
		return
	}
	b.traces = left / others
}

func (b *budgetControl) feelCPU(limit float64, elapsed time.Duration) {
	now, ok := b.readCPU()
	if !ok {
		return
	}
	if b.cpuRead {
		b.cores = (now - b.cpuTime).Seconds() / elapsed.Seconds()
		b.cpu = feedback(b.cpu, b.cores/limit)
	}
	b.cpuTime, b.cpuRead = now, true
}

func (b *budgetControl) feelP99(limit time.Duration, w *window, elapsed, patience time.Duration) {
	if !b.p99Read { // w goes back to before the limit was on
		b.p99Read = true
		return
	}
	b.recent.plus(w)
	b.age += elapsed
	if b.recent.total < enoughForP99 && (b.age < patience || b.recent.total == 0) {
		return
	}
	b.duration = b.recent.quantile(0.99)
	b.p99 = feedback(b.p99, float64(b.duration)/float64(limit))
	b.recent, b.age = window{}, 0
}

// feedback returns the next factor, given the measured value as a share of its
// limit. Above the limit the factor falls fast, by the fourth power (tracing is
// only a part of what is measured) but not below half; below 90% it rises by a
// tenth; in between it stays. So it approaches the limit from below.
func feedback(factor, use float64) float64 {
	switch {
	case use > 1:
		return max(factor*max(math.Pow(use, -4), 0.5), smallest)
	case use < 0.9:
		return min(factor*1.1, 1)
	}
	return factor
}
