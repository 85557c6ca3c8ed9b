package answer

import (
	"context"
	"math"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tare-trace/tare/store"
)

// The memory that queries have. What is received goes before them: with Go's memory limit
// reached, the collector refuses spans.
const (
	share     = 4         // queries have a quarter of Go's memory limit
	unlimited = 512 << 20 // without one
	// small traces are not counted: as many queries run at once as there are turns.
	small = 1 << 20
	// factor is how much memory a query takes for each byte of a trace, with what is made
	// of it; TestLargeTracesWaitForEachOther measures it.
	factor = 8
	// pressed is the part of the memory limit that may be in use when a query begins.
	pressed = 0.75
)

// Memory bounds the large traces that queries read at once.
type Memory struct {
	limit int64
	free  *semaphore.Weighted
	live  func() (used, limit int64) // of the process
}

// NewMemory takes its size from Go's memory limit.
func NewMemory() *Memory {
	limit := int64(unlimited)
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		limit = n / share
	}
	return &Memory{limit: limit, free: semaphore.NewWeighted(limit), live: live}
}

// live is the heap that was in use at the last garbage collection, and Go's memory limit.
func live() (used, limit int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()), debug.SetMemoryLimit(-1) //nolint:gosec // an amount of memory
}

var errBusy = &Error{http.StatusServiceUnavailable, "memory is short, and what is received goes before queries: try again later, or read less at once"}

// Limit makes each query wait for memory within its deadline: until the process has some,
// and until a large trace that it reads fits beside those of other queries.
func (m *Memory) Limit(next http.Handler, busy func(w http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.calm(r.Context()) {
			w.Header().Set("Retry-After", "5")
			busy(w)
			return
		}
		var held int64
		defer func() { m.free.Release(held) }()
		ctx := store.WithAsk(r.Context(), func(ctx context.Context, size int64) error {
			// What was held is of a trace that the query has done with. One that needs more than
			// there is has all of it.
			m.free.Release(held)
			held = 0
			if size <= small {
				return nil
			}
			need := min(size*factor, m.limit)
			if err := m.free.Acquire(ctx, need); err != nil {
				return errBusy
			}
			held = need
			return nil
		})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// calm waits until the process is below its memory limit by enough for a query.
func (m *Memory) calm(ctx context.Context) bool {
	for {
		used, limit := m.live()
		if float64(used) <= pressed*float64(limit) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}
