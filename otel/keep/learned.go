package keep

import (
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/otel/histogram"
)

// learned holds duration thresholds, for a bounded number of operations.
// Reading takes no lock: the map is replaced when a name is added.
type learned struct {
	config     Learn
	window     uint32 // observations after which the past weighs half
	operations atomic.Pointer[map[string]*operation]
	add        sync.Mutex
	unlearned  atomic.Uint64
}

const (
	// eighths of an octave are the buckets: a threshold is at most 1/8 above the
	// quantile.
	eighths = histogram.Buckets(3)
	// unitShift makes the unit of the histogram 1.024 µs.
	unitShift = 10
	// numBuckets are eight linear ones and eight for each of 28 octaves above; the
	// last ends at 2^31 units, about 37 minutes.
	numBuckets = 29 << eighths
	// thinning: once an operation has a threshold, one observation in 16 is
	// counted, so that cores rarely meet on the histogram's cache lines.
	thinning = 16
	// recompute after so many counted observations.
	recompute = 64
	never     = math.MaxInt64
)

// operation is the histogram of one name. Counts may be lost to races with the
// halving of the window: it estimates, it does not account.
type operation struct {
	limit   atomic.Int64  // ns; never until learned
	seen    atomic.Uint32 // counted observations; it may wrap around
	compute sync.Mutex
	buckets [numBuckets]atomic.Uint32
}

func newLearned(config Learn) *learned {
	l := &learned{config: config, window: uint32(max(16384, min(4*config.After, math.MaxInt32)))}
	l.operations.Store(&map[string]*operation{})
	return l
}

// observe learns a duration and reports whether it is above the threshold that
// held before.
func (l *learned) observe(name string, d time.Duration) bool {
	op := (*l.operations.Load())[name]
	if op == nil {
		if op = l.operation(name); op == nil {
			l.unlearned.Add(1)
			return false
		}
	}
	limit := op.limit.Load()
	if limit == never || rand.Uint32()%thinning == 0 {
		op.buckets[bucket(d)].Add(1)
		if n := op.seen.Add(1); n%recompute == 0 && int(n) >= l.config.After && op.compute.TryLock() {
			op.learn(l.config.Quantile, l.window)
			op.compute.Unlock()
		}
	}
	return int64(d) > limit && d >= l.config.AtLeast
}

// operation adds a name, or returns nil if there are too many.
func (l *learned) operation(name string) *operation {
	if len(*l.operations.Load()) >= l.config.Operations {
		return nil
	}
	l.add.Lock()
	defer l.add.Unlock()
	old := *l.operations.Load()
	if op := old[name]; op != nil {
		return op
	}
	if len(old) >= l.config.Operations {
		return nil
	}
	op := new(operation)
	op.limit.Store(never)
	next := maps.Clone(old)
	next[strings.Clone(name)] = op
	l.operations.Store(&next)
	return op
}

// learn sets the limit to the upper end of the quantile's bucket, and halves
// all counts when the window is full, so that recent durations weigh more.
func (op *operation) learn(quantile float64, window uint32) {
	var counts [numBuckets]uint32
	var total uint64
	for i := range counts {
		counts[i] = op.buckets[i].Load()
		total += uint64(counts[i])
	}
	target := uint64(math.Ceil(quantile * float64(total)))
	var sum uint64
	for i, n := range counts {
		if sum += uint64(n); sum >= target {
			op.limit.Store(upper(i))
			break
		}
	}
	if total < uint64(window) {
		return
	}
	for i, n := range counts {
		op.buckets[i].Store(n / 2)
	}
}

// bucket returns the index of d.
func bucket(d time.Duration) int {
	return min(eighths.Of(uint64(max(d, 0))>>unitShift), numBuckets-1)
}

// upper returns the longest duration of a bucket in ns.
func upper(i int) int64 {
	if i == numBuckets-1 {
		return never - 1 // not "never": it has been learned
	}
	return int64(eighths.Start(i+1)<<unitShift) - 1
}
