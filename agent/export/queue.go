package export

import (
	"context"
	"sync"
	"time"

	"github.com/tare-trace/tare/span"
)

// maxFree is how many used batches are kept: one fills while one is sent.
const maxFree = 2

// queue passes encoded spans, in order, from any number of callers to one sender.
// Only the open batch is ever partly filled: as long as the sender is busy, spans
// gather there.
type queue struct {
	maxSpans, maxBytes           int
	maxBatchSpans, maxBatchBytes int
	interval                     time.Duration

	wake chan struct{} // capacity 1: there may be something to take

	mu     sync.Mutex
	open   *batch
	full   []*batch
	free   []*batch
	spans  int // queued or on their way
	bytes  int
	closed bool

	// Positions in the stream of queued spans: of the last one queued, of the
	// last one sent or lost, and up to which a flush asked for sending at once.
	pushed, settled, flushTo uint64

	progress chan struct{} // closed at the next settle; nil if nobody waits
}

func newQueue(cfg Config) *queue {
	return &queue{
		maxSpans: cfg.MaxQueue, maxBytes: cfg.MaxQueueBytes,
		maxBatchSpans: cfg.MaxBatch, maxBatchBytes: cfg.MaxBatchBytes,
		interval: cfg.FlushInterval,
		wake:     make(chan struct{}, 1),
		open:     &batch{},
	}
}

// push encodes what fits and says how many did not, and why.
func (q *queue) push(spans []*span.Span) (lost int, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return len(spans), ReasonShutdown
	}
	for _, s := range spans {
		if !q.pushOne(s) {
			lost++
		}
	}
	return lost, ReasonQueueFull
}

func (q *queue) pushOne(s *span.Span) bool {
	if q.spans >= q.maxSpans || q.bytes >= q.maxBytes {
		return false
	}
	b := q.open
	before := len(b.buf)
	b.add(s)
	size := len(b.buf) - before
	if q.bytes+size > q.maxBytes {
		b.removeLast()
		return false
	}
	q.spans++
	q.bytes += size
	q.pushed++
	if len(b.buf) > q.maxBatchBytes && len(b.spans) > 1 {
		q.seal()
		b.moveLast(q.open)
		b = q.open
	}
	if len(b.spans) == 1 {
		b.since = time.Now()
		q.signal() // the sender may have nothing to wait for yet
	}
	if len(b.spans) >= q.maxBatchSpans || len(b.buf) >= q.maxBatchBytes {
		q.seal()
	}
	return true
}

// seal queues the open batch and opens another.
func (q *queue) seal() {
	last := q.open
	q.full = append(q.full, last)
	if n := len(q.free); n > 0 {
		q.open, q.free = q.free[n-1], q.free[:n-1]
	} else { // about as large: what grows leaves as much garbage
		q.open = &batch{buf: make([]byte, 0, len(last.buf)+len(last.buf)/8), spans: make([]encoded, 0, len(last.spans))}
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the next batch; or nil and after how long there may be one (0:
// when signalled); or nil and that there will be none.
func (q *queue) take() (b *batch, wait time.Duration, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.full) == 0 {
		if len(q.open.spans) == 0 {
			return nil, 0, q.closed
		}
		if !q.closed && q.flushTo <= q.settled {
			if wait = q.interval - time.Since(q.open.since); wait > 0 {
				return nil, wait, false
			}
		}
		q.seal()
	}
	b = q.full[0]
	n := copy(q.full, q.full[1:])
	q.full[n] = nil
	q.full = q.full[:n]
	return b, 0, false
}

// settle removes the batch that was taken last, sent or lost, from the bounds.
func (q *queue) settle(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spans -= len(b.spans)
	q.bytes -= len(b.buf)
	q.settled += uint64(len(b.spans))
	if len(q.free) < maxFree && cap(b.buf) <= 2*q.maxBatchBytes {
		b.reset()
		q.free = append(q.free, b)
	}
	if q.progress != nil {
		close(q.progress)
		q.progress = nil
	}
}

func (q *queue) flush(ctx context.Context) error {
	q.mu.Lock()
	target := q.pushed
	q.flushTo = max(q.flushTo, target)
	for q.settled < target {
		q.signal()
		if q.progress == nil {
			q.progress = make(chan struct{})
		}
		progress := q.progress
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) size() (bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}
