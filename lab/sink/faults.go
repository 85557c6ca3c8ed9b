package sink

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// RetryAfter is what a refused request over HTTP is told to wait, in seconds.
const RetryAfter = 1

// faults make the sink behave like a collector in trouble.
type faults struct {
	share atomic.Uint64 // float64 bits, 0…1
	seen  atomic.Uint64 // requests since share was set

	mu     sync.Mutex
	gate   chan struct{} // closed: answers are given
	stalls bool
}

func (f *faults) init() {
	f.gate = make(chan struct{})
	close(f.gate)
}

// Fail refuses this share (0…1, otherwise the nearer end) of the requests from
// now on: over HTTP with 503 and Retry-After, over gRPC with UNAVAILABLE, both of
// which an exporter must retry. They are spread evenly and not at random: of n
// requests exactly ⌊n·share⌋ are refused.
func (s *Sink) Fail(share float64) {
	if !(share > 0) { // NaN, too
		share = 0
	}
	s.faults.seen.Store(0)
	s.faults.share.Store(math.Float64bits(min(share, 1)))
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

// refuse decides about one request.
func (f *faults) refuse() bool {
	share := math.Float64frombits(f.share.Load())
	if share == 0 {
		return false
	}
	n := float64(f.seen.Add(1))
	return math.Floor(n*share) > math.Floor((n-1)*share)
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
