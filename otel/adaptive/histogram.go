package adaptive

import (
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/otel/histogram"
)

// Durations are counted in buckets that are a quarter of a power of two wide:
// a quantile is at most 25% off, and mostly 10%. The unit is 1.024 µs, the
// last bucket begins at 120 s and holds all above.
const (
	unitBits = 10
	buckets  = 104
	quarters = histogram.Buckets(2)
)

func bucketOf(d time.Duration) int {
	return min(quarters.Of(uint64(max(d, 0))>>unitBits), buckets-1)
}

// bucketStart is the smallest duration in bucket i.
func bucketStart(i int) time.Duration { return time.Duration(quarters.Start(i) << unitBits) }

// observationShards is how many copies a route's counters have. Each takes
// half a KiB, and there may be hundreds of routes.
const observationShards = 4

// observations counts requests that ended. All counts only rise; those of
// buckets wrap around, and what reads them takes differences.
type observations [observationShards]struct {
	micros  atomic.Uint64
	failed  atomic.Uint64
	slow    atomic.Uint64
	buckets [buckets]atomic.Uint32
	_       [64]byte
}

func (o *observations) add(d time.Duration, failed, slow bool) {
	s := &o[shard()%observationShards]
	s.buckets[bucketOf(d)].Add(1)
	if d > 0 {
		s.micros.Add(uint64(d / time.Microsecond))
	}
	if failed {
		s.failed.Add(1)
	}
	if slow {
		s.slow.Add(1)
	}
}

// mark holds the counts up to which a reader has read.
type mark struct {
	micros, failed, slow uint64
	buckets              [buckets]uint32
}

// window is what was seen between two marks.
type window struct {
	total, failed, slow, micros uint64
	buckets                     [buckets]uint64
}

// since returns what came after m, and moves m. Requests that end meanwhile
// may be in the one window with their duration and in the next as failed.
func (o *observations) since(m *mark) (w window) {
	var now mark
	for i := range o {
		now.micros += o[i].micros.Load()
		now.failed += o[i].failed.Load()
		now.slow += o[i].slow.Load()
		for b := range now.buckets {
			now.buckets[b] += o[i].buckets[b].Load()
		}
	}
	w.micros, w.failed, w.slow = now.micros-m.micros, now.failed-m.failed, now.slow-m.slow
	for b, n := range now.buckets {
		w.buckets[b] = uint64(n - m.buckets[b]) // modulo 2^32
		w.total += w.buckets[b]
	}
	*m = now
	return w
}

func (w *window) plus(v *window) {
	w.total += v.total
	w.failed += v.failed
	w.slow += v.slow
	w.micros += v.micros
	for b, n := range v.buckets {
		w.buckets[b] += n
	}
}

func (w *window) mean() time.Duration {
	if w.total == 0 {
		return 0
	}
	return time.Duration(float64(w.micros) / float64(w.total) * float64(time.Microsecond))
}

// quantile is the duration that a share q of the requests does not exceed,
// interpolated within its bucket; 0 if there were none. In the last bucket it
// is that bucket's start.
func (w *window) quantile(q float64) time.Duration {
	rank := q * float64(w.total)
	var below float64
	for b, n := range w.buckets {
		if n == 0 {
			continue
		}
		if below+float64(n) >= rank {
			start := bucketStart(b)
			if b == buckets-1 {
				return start
			}
			share := (rank - below) / float64(n)
			return start + time.Duration(share*float64(bucketStart(b+1)-start))
		}
		below += float64(n)
	}
	return 0
}
