package keepprocessor

import (
	"math"
	"strings"
	"time"
)

// learned holds a duration limit for each root operation. It is not safe for concurrent
// use.
type learned struct {
	config     Learn
	window     uint32 // observations after which all counts are halved
	operations map[operationKey]*operation
	swept      time.Time
	unlearned  uint64 // roots whose operation could not be added
}

type operationKey struct{ service, name string }

const (
	// growth of bucket sizes: a limit exceeds the exact quantile by at most this factor.
	growth = 1.04
	// Durations from 1 µs to 2^42 ns, 73 minutes. Others count in the first or the
	// last bucket.
	shortest   = 1e3
	numBuckets = 568 // 1 + ⌈log(2^42/1e3) / log(growth)⌉; a test computes it
	relearn    = 64  // observations after which a limit is computed again
	never      = math.MaxInt64

	idleOperation = 10 * time.Minute // after which an operation may be evicted
	sweepEvery    = time.Minute
)

var perLog = 1 / math.Log(growth)

// operation is the histogram of one root operation.
type operation struct {
	seen    time.Time
	limit   int64 // ns; never until learned
	total   uint32
	buckets [numBuckets]uint32
}

// newLearned returns nil if learning is off.
func newLearned(c Learn) *learned {
	if c.Quantile == 0 {
		return nil
	}
	if c.After == 0 {
		c.After = int(math.Ceil(20/(1-c.Quantile) - 1e-6)) // 0.99 is not exact
	}
	return &learned{config: c, window: uint32(max(4*c.After, 8192)), operations: map[operationKey]*operation{}}
}

// observe learns a duration and reports whether it exceeds the limit learned so far.
func (l *learned) observe(service, name string, d time.Duration, now time.Time) bool {
	op := l.operation(service, name, now)
	if op == nil {
		l.unlearned++
		return false
	}
	slow := int64(d) > op.limit && d >= l.config.AtLeast
	op.seen = now
	op.buckets[bucketOf(d)]++
	op.total++
	if op.total >= uint32(l.config.After) && (op.limit == never || op.total%relearn == 0) {
		op.learn(l.config.Quantile)
	}
	if op.total >= l.window {
		op.halve()
	}
	return slow
}

func (l *learned) operation(service, name string, now time.Time) *operation {
	if op := l.operations[operationKey{service, name}]; op != nil {
		return op
	}
	if len(l.operations) >= l.config.Operations && !l.sweep(now) {
		return nil
	}
	op := &operation{limit: never}
	// Cloned, because the strings may keep the memory of a whole message.
	l.operations[operationKey{strings.Clone(service), strings.Clone(name)}] = op
	return op
}

// sweep evicts operations that were not seen recently and reports whether one can be
// added. It visits all of them, and so runs at most once per sweepEvery.
func (l *learned) sweep(now time.Time) bool {
	if now.Sub(l.swept) < sweepEvery {
		return false
	}
	l.swept = now
	for key, op := range l.operations {
		if now.Sub(op.seen) > idleOperation {
			delete(l.operations, key)
		}
	}
	return len(l.operations) < l.config.Operations
}

// learn sets the limit to the upper end of the bucket that contains the quantile.
func (op *operation) learn(quantile float64) {
	target := uint64(math.Ceil(quantile * float64(op.total)))
	var sum uint64
	for i, n := range op.buckets {
		if sum += uint64(n); sum >= target {
			op.limit = upperEnd(i)
			return
		}
	}
}

func (op *operation) halve() {
	op.total = 0
	for i := range op.buckets {
		op.buckets[i] /= 2
		op.total += op.buckets[i]
	}
}

func bucketOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Ceil(math.Log(float64(d)/shortest)*perLog)), numBuckets-1)
}

// upperEnd returns the maximum duration of a bucket in ns. The last bucket has none: an
// operation that mostly takes longer than an hour is never slow.
func upperEnd(i int) int64 {
	if i == numBuckets-1 {
		return never
	}
	return int64(shortest * math.Exp(float64(i)/perLog))
}
