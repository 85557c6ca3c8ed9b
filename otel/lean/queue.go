package lean

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tare-trace/tare/otel/wire"
)

// queue holds finished spans until they are exported. It is divided into shards, each with its own
// lock, so that processors do not wait for each other. The bounds are those of the whole queue: a
// shard reserves room for several spans at a time, so that only one span in many updates the
// counters that all shards share.
type queue struct {
	shards     []*shard
	spans      atomic.Int64 // reserved by shards, waiting or being exported
	bytes      atomic.Int64
	maxSpans   int64
	maxBytes   int64
	wakeSpans  int64 // enough for a request
	wakeBytes  int64
	drawSpans  int64
	drawBytes  int64
	wake       chan struct{} // capacity 1
	next       atomic.Uint32
	unexported bool // there is no exporter

	// free are emptied blocks. Their lock is taken once a block, not once a span.
	freeMu  sync.Mutex
	free    [][]byte
	maxFree int
}

// Spans are collected in blocks: they are filled up to blockSize, and reused. A larger span has a
// block of its own. A scope that has few spans has a small block.
const (
	blockSize    = 64 << 10
	maxKeptBlock = 2 * blockSize
)

// shard is a part of the queue, and of the counters.
type shard struct {
	mu     sync.Mutex
	scopes []chunk // by scope number: being filled
	full   []scopeChunk
	spans  int64 // reserved and not used yet
	bytes  int64
	closed bool

	ended   uint64
	dropped Dropped

	started    [3][3]atomic.Uint64 // by parentOrigin and sdktrace.SamplingDecision
	over       [2]atomic.Uint64    // ended spans: not sampled, sampled
	recordOnly atomic.Uint64       // of those, dropped because nobody wants them
	undecided  atomic.Uint64       // dropped by a bound of keep

	_ [128]byte // shards do not share cache lines, nor pairs of them
}

type scopeChunk struct {
	chunk
	scope int
}

// chunk is encoded spans of one scope, as ScopeSpans holds them: tag, length, Span.
type chunk struct {
	b     []byte
	spans int
}

type parentOrigin uint8

const (
	noParent parentOrigin = iota
	localParent
	remoteParent
)

func newQueue(b Batch, exported bool) *queue {
	n := 1 << bits.Len(uint(runtime.GOMAXPROCS(0)-1))
	q := &queue{
		maxSpans: int64(b.MaxQueueSize), maxBytes: int64(b.MaxQueueBytes),
		wakeSpans: int64(b.MaxExportBatchSize),
		wakeBytes: min(int64(b.MaxExportBatchBytes), int64(b.MaxQueueBytes)/2),
		wake:      make(chan struct{}, 1), unexported: !exported,
		maxFree: max(1, b.MaxQueueBytes/blockSize),
	}
	// What shards have reserved and not used is at most 1/8 of the queue. Only reserving notices that a
	// request is full, so portions are also small against a request.
	q.drawSpans = max(1, min(16, q.maxSpans/int64(8*n), q.wakeSpans/32))
	q.drawBytes = max(1, min(16<<10, q.maxBytes/int64(8*n), q.wakeBytes/32))
	for range n {
		q.shards = append(q.shards, new(shard))
	}
	return q
}

// anyShard returns each shard in turn.
func (q *queue) anyShard() *shard {
	return q.shards[int(q.next.Add(1))&(len(q.shards)-1)]
}

// add queues an encoded span, or drops it; and wakes the exporting goroutine when there is enough.
func (q *queue) add(sh *shard, scope int, span []byte) {
	size := int64(wire.SizeField(len(span)))
	sh.mu.Lock()
	sh.ended++
	reason, wake := q.reserve(sh, size)
	if reason != nil {
		*reason++
	} else {
		sh.spans--
		sh.bytes -= size
		for scope >= len(sh.scopes) {
			sh.scopes = append(sh.scopes, chunk{})
		}
		c := &sh.scopes[scope]
		if c.spans > 0 && len(c.b)+int(size) > blockSize {
			sh.full = append(sh.full, scopeChunk{*c, scope})
			*c = chunk{b: q.block()}
		}
		c.b = wire.AppendBytes(c.b, wire.ScopeSpansSpan, span)
		c.spans++
	}
	sh.mu.Unlock()
	if wake {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// reserve makes sure that a shard has room for a span of this size. If the queue has none left, it
// returns the counter of the reason. wake tells that there is enough to export; that is only checked
// when the shard takes another portion of the queue's bounds.
func (q *queue) reserve(sh *shard, size int64) (reason *uint64, wake bool) {
	if q.unexported {
		return &sh.dropped.NoExporter, false
	}
	if sh.closed {
		return &sh.dropped.Shutdown, false
	}
	if sh.spans < 1 {
		n := draw(&q.spans, 1, q.drawSpans, q.maxSpans)
		if n == 0 {
			return &sh.dropped.QueueFull, true
		}
		sh.spans += n
		wake = q.spans.Load() >= q.wakeSpans
	}
	if sh.bytes < size {
		n := draw(&q.bytes, size-sh.bytes, q.drawBytes, q.maxBytes)
		if n == 0 {
			return &sh.dropped.QueueBytes, true
		}
		sh.bytes += n
		wake = wake || q.bytes.Load() >= q.wakeBytes
	}
	return nil, wake
}

// draw takes a portion of a bound, or, near the bound, only what is needed. 0 means that there is
// not enough left.
func draw(used *atomic.Int64, need, portion, bound int64) int64 {
	for {
		have := used.Load()
		n := max(need, portion)
		if have+n > bound {
			if n = need; have+n > bound {
				return 0
			}
		}
		if used.CompareAndSwap(have, have+n) {
			return n
		}
	}
}

// take hands all waiting spans over to f. last closes the queue: spans that come later are dropped
// and counted.
func (q *queue) take(last bool, f func(scope int, c chunk)) {
	for _, sh := range q.shards {
		sh.mu.Lock()
		for i, c := range sh.full {
			f(c.scope, c.chunk)
			sh.full[i] = scopeChunk{}
		}
		sh.full = sh.full[:0]
		for i, c := range sh.scopes {
			if c.spans > 0 {
				f(i, c)
				sh.scopes[i] = chunk{b: q.block()}
			}
		}
		sh.closed = sh.closed || last
		sh.mu.Unlock()
	}
}

// block returns an empty block, or nil: append makes one.
func (q *queue) block() []byte {
	q.freeMu.Lock()
	defer q.freeMu.Unlock()
	n := len(q.free)
	if n == 0 {
		return nil
	}
	b := q.free[n-1]
	q.free = q.free[:n-1]
	return b
}

// keep takes an emptied block back, unless it is too large or there are as many as can be filled.
func (q *queue) keep(b []byte) {
	if cap(b) > maxKeptBlock {
		return
	}
	q.freeMu.Lock()
	defer q.freeMu.Unlock()
	if len(q.free) < q.maxFree {
		q.free = append(q.free, b[:0])
	}
}

// release frees the room of exported spans.
func (q *queue) release(spans int, bytes int) {
	q.spans.Add(-int64(spans))
	q.bytes.Add(-int64(bytes))
}
