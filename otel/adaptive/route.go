package adaptive

import (
	"maps"
	"strings"
	"sync/atomic"
)

const (
	// defaultRoutes is how many routes are learned at most; the rest share one.
	defaultRoutes = 256
	maxRoutes     = 1 << 16
	// maxRouteName is the longest name, in bytes, that is learned.
	maxRouteName = 256
	// idleIntervals is after how many intervals without a request a route may be
	// evicted, when all places are taken: names that clients invent must not keep
	// real ones out for good.
	idleIntervals = 10
)

// route is what is known about the requests of one name, or of all names that
// share one.
type route struct {
	name  string
	boost atomic.Uint32 // a boost
	seen  observations
	// arrived counts decisions by class, for the budget: observationShards
	// copies, stride apart.
	arrived []atomic.Uint64
	stride  int

	controlled // by Sampler.mu
}

// controlled is what the recomputation keeps between two intervals.
type controlled struct {
	mark    mark      // up to the last interval
	last    window    // the last interval
	p99     mark      // up to what the p99 limit was last shown
	counted []uint64  // arrived, at the last beat
	perSec  []float64 // smoothed arrivals by class
	totals  Totals    // up to the last interval
	idle    int
}

func (t *Totals) plus(w *window) {
	t.Total += w.total
	t.Failed += w.failed
	t.Slow += w.slow
}

func newRoute(name string, classes int) *route {
	const perLine = 8 // 64 bytes
	stride := (classes + perLine - 1) / perLine * perLine
	return &route{
		name:       name,
		arrived:    make([]atomic.Uint64, stride*observationShards),
		stride:     stride,
		controlled: controlled{counted: make([]uint64, classes), perSec: make([]float64, classes)},
	}
}

func (r *route) arrive(class int) {
	r.arrived[int(shard()%observationShards)*r.stride+class].Add(1)
}

func (r *route) arrivals(class int) (n uint64) {
	for i := range observationShards {
		n += r.arrived[i*r.stride+class].Load()
	}
	return n
}

// routeTable is immutable: a new route makes a new table.
type routeTable map[string]*route

// routeOf returns the route that was learned under the name, or the shared one.
func (s *Sampler) routeOf(name string) *route {
	if s.maxRoutes == 0 {
		return s.rest
	}
	if r, ok := (*s.routes.Load())[name]; ok {
		return r
	}
	return s.rest
}

// learn is routeOf for a request that ended: it makes a route of a new name,
// if there is room. Only then it takes a lock.
func (s *Sampler) learn(name string) *route {
	t := *s.routes.Load()
	if r, ok := t[name]; ok {
		return r
	}
	if len(t) >= s.maxRoutes || name == "" || len(name) > maxRouteName {
		return s.rest
	}
	return s.newRoute(name)
}

func (s *Sampler) newRoute(name string) *route {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := *s.routes.Load()
	if r, ok := t[name]; ok {
		return r
	}
	if len(t) >= s.maxRoutes {
		return s.rest
	}
	t = maps.Clone(t)
	name = strings.Clone(name) // it may be part of a larger text
	r := newRoute(name, s.classes())
	t[name] = r
	s.routes.Store(&t)
	return r
}

// forget evicts idle routes when all places are taken. Requests of an evicted
// route that are just ending are still counted, one interval later.
func (s *Sampler) forget() {
	t := *s.routes.Load()
	if len(t) < s.maxRoutes {
		return
	}
	kept := make(routeTable, len(t))
	for name, r := range t {
		if r.idle < idleIntervals {
			kept[name] = r
		} else {
			s.leaving = append(s.leaving, r)
		}
	}
	if len(kept) < len(t) {
		s.routes.Store(&kept)
	}
}

// everyRoute calls f with the shared route and every learned one. The caller
// holds mu.
func (s *Sampler) everyRoute(f func(*route)) {
	f(s.rest)
	for _, r := range *s.routes.Load() {
		f(r)
	}
}
