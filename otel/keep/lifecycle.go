package keep

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ForceFlush flushes the next processor, which has the spans of all decided
// traces. Undecided traces stay buffered: to export them now would be to decide.
func (p *Processor) ForceFlush(ctx context.Context) error {
	return p.next.ForceFlush(ctx)
}

// Shutdown waits for calls in progress, as long as ctx allows, drops the traces
// that are undecided and shuts the next processor down. The spans of kept traces
// have been handed on by then. The next processor gets no span after its
// Shutdown has begun, unless ctx ended while it was busy.
func (p *Processor) Shutdown(ctx context.Context) error {
	p.once.Do(func() { p.result = p.shutdown(ctx) })
	return p.result
}

func (p *Processor) shutdown(ctx context.Context) error {
	p.closed.Store(true)
	close(p.stop)
	err := p.quiesce(ctx)
	for i := range p.shards {
		s := &p.shards[i]
		var out export
		s.mu.Lock()
		s.drain(&out)
		s.mu.Unlock()
		p.hand(&out)
	}
	return errors.Join(err, p.next.Shutdown(ctx))
}

// quiesce waits until no call is in progress.
func (p *Processor) quiesce(ctx context.Context) error {
	busy := func() bool {
		select {
		case <-p.done:
		default:
			return true
		}
		for i := range p.shards {
			if p.shards[i].calls.Load() > 0 {
				return true
			}
		}
		return false
	}
	for wait := 10 * time.Microsecond; busy(); wait = min(2*wait, 10*time.Millisecond) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("keep: the next span processor was still busy with a span at shutdown: %w", ctx.Err())
		case <-time.After(wait):
		}
	}
	return nil
}

// age drops traces that are too old, until the processor is shut down.
func (p *Processor) age(tick time.Duration) {
	defer close(p.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.sweep()
		}
	}
}

// sweepBatch bounds the traces that are dropped while a shard is locked.
const sweepBatch = 64

// sweep begins an epoch and drops what has waited for all of the last eight.
func (p *Processor) sweep() {
	epoch := p.epoch.Add(1)
	for i := range p.shards {
		for s, more := &p.shards[i], true; more && !p.closed.Load(); {
			var out export
			s.mu.Lock()
			more = s.sweep(epoch, epochs, sweepBatch, &out)
			s.mu.Unlock()
			p.hand(&out)
		}
	}
}
