package main

import (
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/workloads/internal/service"
)

// every hits a share of its calls: evenly spread, so that 0.01 is each hundredth, or
// scattered. Counting and not chance, so that two runs of one seed have the
// same faults.
type every struct {
	millionth uint64 // the share
	phase     uint64 // 0: the last call of a period is hit; half a million: the middle
	// scattered: each call is hit or not whatever became of the one before. Even faults
	// have a period, and what looks at them in intervals may have the same one: then
	// it would see a pattern that no real faults have.
	scattered bool
	seed      uint64 // of the scattered ones
	calls     atomic.Uint64
}

const million = 1_000_000

func newEvery(share float64, phase uint64) *every {
	return &every{millionth: uint64(math.Round(share * million)), phase: phase}
}

func (e *every) hit() bool {
	if e.millionth == 0 {
		return false
	}
	n := e.calls.Add(1)
	if e.scattered {
		return rand.New(rand.NewPCG(e.seed+e.phase, n)).Uint64N(million) < e.millionth //nolint:gosec // a pattern, not a secret
	}
	return (n*e.millionth+e.phase)/million > ((n-1)*e.millionth+e.phase)/million
}

// faults that are injected into requests.
type faults struct {
	errors, slow *every
	delay        time.Duration
}

// newFaults keeps the slow requests apart from the failing ones where both
// shares are the same and faults are even.
func newFaults(s settings) *faults {
	f := &faults{newEvery(s.errors, 0), newEvery(s.slow, million/2), s.slowDelay}
	for _, e := range []*every{f.errors, f.slow} {
		e.scattered, e.seed = s.pattern == scattered, uint64(s.seed) //nolint:gosec // at least 0
	}
	return f
}

// inject answers for an endpoint, or lets it. All endpoints are counted
// together.
func (f *faults) inject(e endpoint) http.HandlerFunc {
	kind := attribute.String("app.operation", e.kind)
	return func(w http.ResponseWriter, r *http.Request) {
		annotate(r.Context(), kind)
		if f.slow.hit() {
			annotate(r.Context(), attribute.String("app.injected", "delay"))
			if !pause(r.Context(), f.delay) {
				return
			}
		}
		if f.errors.hit() {
			annotate(r.Context(), attribute.String("app.injected", "error"))
			if e.fails != nil {
				e.fails(w, r)
				return
			}
			service.WriteError(w, http.StatusInternalServerError, "injected by INJECT_ERRORS")
			return
		}
		e.ServeHTTP(w, r)
	}
}
