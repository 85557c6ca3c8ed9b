// Package pressure measures how hard it is for an exporter to get spans to the collector. It does not
// tell an overloaded collector from one that is down: in both cases spans are lost that a sampler could
// have spared the service.
package pressure

import (
	"math"
	"sync"
	"time"
)

const (
	// most is the highest value that refusals lead to: something must still be sent, or nobody would
	// see that the collector accepts spans again.
	most = 15.0 / 16
	// least is the value below which the rest of a refusal counts as over.
	least = 1.0 / 64
	// half is the time in which the value of past refusals falls to half, without any export.
	half = 10 * time.Second
	// long is how long an export takes that counts as much as the most refusals: the default of the
	// SDK's export timeout.
	long = 30 * time.Second
)

// Gauge is the pressure of one exporter. Its zero value is ready; its methods may be called
// concurrently.
//
// Each refused attempt halves what is missing from 1: 0.5, 0.75, 0.875 and so on, up to 0.94. Each
// accepted export halves the value; without exports it halves every 10 s. An export that has been
// under way for d counts d/30 s, if that is more.
type Gauge struct {
	mu       sync.Mutex
	level    float64   // of refusals, at the time changed
	changed  time.Time // also when the last export under way ended: until then the level does not fall
	underWay int
	since    time.Time // underWay is not 0
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

func (g *Gauge) time() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

// current is the level now. The caller holds mu.
func (g *Gauge) current(now time.Time) float64 {
	if g.level == 0 || g.underWay > 0 {
		return g.level
	}
	if v := g.level * math.Exp2(-float64(now.Sub(g.changed))/float64(half)); v >= least {
		return v
	}
	return 0
}

// Value is the pressure now, 0 to 1.
func (g *Gauge) Value() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.time()
	v := g.current(now)
	if g.underWay > 0 {
		v = max(v, min(float64(now.Sub(g.since))/float64(long), most))
	}
	return v
}

// Begin says that an export begins. [Gauge.End] must follow.
func (g *Gauge) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.time()
	g.level, g.changed = g.current(now), now
	if g.underWay++; g.underWay == 1 {
		g.since = now
	}
}

// Refused says that the collector did not take an attempt, whether it is repeated or not.
func (g *Gauge) Refused() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.time()
	v := g.current(now)
	g.level, g.changed = min(v+(1-v)/2, most), now
}

// End says that an export has ended, and whether the collector accepted it.
func (g *Gauge) End(accepted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if accepted {
		if g.level /= 2; g.level < least {
			g.level = 0
		}
	}
	g.underWay--
	g.changed = g.time()
	g.since = g.changed // others that are under way count from here: their collector answers
}
