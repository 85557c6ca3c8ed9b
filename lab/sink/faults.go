package sink

import (
	"context"
	"sync"
)

// faults make the sink behave like a collector in trouble.
type faults struct {
	mu     sync.Mutex
	gate   chan struct{} // closed: answers are given
	stalls bool
}

func (f *faults) init() {
	f.gate = make(chan struct{})
	close(f.gate)
}

// Stall holds all answers while it is on. Held requests are accepted when it is
// switched off; those whose client has gone by then are refused, and not kept.
func (s *Sink) Stall(on bool) {
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case on == f.stalls:
	case on:
		f.gate = make(chan struct{})
	default:
		close(f.gate)
	}
	f.stalls = on
}

// wait returns true when answers are given, false if the client has gone or the
// sink closes.
func (s *Sink) wait(ctx context.Context) bool {
	s.faults.mu.Lock()
	gate := s.faults.gate
	s.faults.mu.Unlock()
	select {
	case <-gate:
		return true
	default:
	}
	select {
	case <-gate:
		return true
	case <-ctx.Done():
	case <-s.closing:
	}
	return false
}
