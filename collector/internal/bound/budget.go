package bound

import (
	"math"
	"runtime/debug"
	"sync/atomic"
)

// budget is the memory that all messages take together while receivers read and decode
// them. What the pipeline takes over is its processors' to limit.
type budget struct {
	used  atomic.Int64
	limit func() int64
}

// shared is the budget of all receivers of the process.
var shared = &budget{limit: memory}

// The share of Go's memory limit that receivers have together, and without a limit.
const (
	receivers = 4 // a quarter
	unlimited = 256 << 20
	// one message may take half of the budget, so that others are served beside it.
	one = 2
)

func memory() int64 {
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return max(n/receivers, 16<<20)
	}
	return unlimited
}

// message is the most that one message may take.
func (b *budget) message() int64 { return b.limit() / one }

// take reserves memory, or returns false: others have it.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
