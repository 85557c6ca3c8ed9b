package lean

import (
	"sync/atomic"
	"time"
)

// clock gives wall time for the price of one reading of the monotonic clock (time.Now reads both
// clocks). It knows by how much the wall clock is ahead of the monotonic one; anchor, called from
// time to time, follows what happens to the wall clock meanwhile.
type clock struct {
	base  time.Time    // monotonic zero
	ahead atomic.Int64 // wall - monotonic, ns
}

// anchorEvery is how far a step of the wall clock can go unnoticed.
const anchorEvery = 10 * time.Second

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.anchor()
	return c
}

// monotonic is the time since base in ns.
func (c *clock) monotonic() int64 { return int64(time.Since(c.base)) }

// wall turns a monotonic time into ns since 1970.
func (c *clock) wall(mono int64) int64 { return mono + c.ahead.Load() }

func (c *clock) anchor() {
	now := time.Now() // both clocks, read together
	c.set(now.UnixNano(), int64(now.Sub(c.base)))
}

func (c *clock) set(wall, mono int64) { c.ahead.Store(wall - mono) }
