package agentreceiver

import (
	"context"
	"sync"
)

// Kept keeps an agent that traces while the collector replaces its receivers, as it does
// after SIGHUP. Its spans wait in the queue meanwhile.
type Kept struct {
	ctx    context.Context
	mu     sync.Mutex
	tracer *tracer
}

// NewKept keeps agents until ctx ends: receivers that are shut down then stop theirs.
func NewKept(ctx context.Context) *Kept { return &Kept{ctx: ctx} }

// Keep has a factory's receivers leave their agent to the next one.
func Keep(k *Kept) Option { return func(c *Config) { c.keep = k } }

// Stop stops an agent that no receiver has taken, and waits for its end. Its spans are lost.
func (k *Kept) Stop() {
	if t := k.take(); t != nil {
		t.stop()
		<-t.ended
	}
}

// take returns an agent that traces, if one is kept.
func (k *Kept) take() *tracer {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tracer
	k.tracer = nil
	return t
}

// put keeps an agent, if it traces and nothing ends.
func (k *Kept) put(t *tracer) bool {
	if k == nil || k.ctx.Err() != nil {
		return false
	}
	select {
	case <-t.ended:
		return false
	case <-t.ready:
	default:
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tracer = t
	return true
}
