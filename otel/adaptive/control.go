package adaptive

import (
	"context"
	"math"
	"time"
)

// beat is the longest time between two looks at what has to act at once:
// pressure, incidents and the budget. Errors and latency act at the end of an
// update interval only.
const beat = time.Second

// control is the state of the recomputation, under Sampler.mu.
type control struct {
	config    Config
	beatAt    time.Time // last beat
	updatedAt time.Time // last end of an interval
	length    time.Duration
	last      window // the last interval, all routes together
	totals    Totals
	leaving   []*route // forgotten, not read to the end yet
	budget    budgetControl
	incidents incidents
	// told is the pressure that SetPressure was last called with, polled what
	// WithPressure's function last returned.
	told, polled float64
}

func (s *Sampler) run(ctx context.Context) {
	defer close(s.done)
	defer s.endAllIncidents() // nobody is left to end them in time
	for {
		timer := time.NewTimer(s.untilNext())
		select {
		case <-timer.C:
			s.step(false)
		case <-s.wake: // the interval may have changed
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (s *Sampler) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	next := s.updatedAt.Add(s.config.UpdateInterval)
	if b := s.beatAt.Add(beat); b.Before(next) {
		next = b
	}
	return max(next.Sub(now), 0)
}

// Update ends the interval now instead of when its time has come.
func (s *Sampler) Update() { s.step(true) }

// step does what is due: always what a beat does, and at the end of an
// interval the boosts. The functions of others are called without the lock.
func (s *Sampler) step(end bool) {
	polled, file := 0.0, fileNews{}
	poll := s.poll.Load()
	if poll != nil {
		polled = clampPressure((*poll)())
	}
	if s.watch != nil {
		file = s.watch.look()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if poll != nil {
		s.polled = polled
	}
	s.incidents.fromFile(file, now)
	s.incidents.expire(now)
	if end || now.Sub(s.updatedAt) >= s.config.UpdateInterval {
		s.update(now)
	}
	// An interval may end, or Update be called, just after a beat: too short a
	// time to measure arrivals by.
	if elapsed := now.Sub(s.beatAt); elapsed >= beat*9/10 {
		s.spend(elapsed)
		s.beatAt = now
	}
	s.publish()
}

// update ends an interval: its errors and durations say which boosts are on
// during the next.
func (s *Sampler) update(now time.Time) {
	var all window
	for _, r := range s.leaving {
		w := r.seen.since(&r.mark)
		all.plus(&w)
	}
	s.leaving = nil
	s.everyRoute(func(r *route) {
		r.last = r.seen.since(&r.mark)
		r.totals.plus(&r.last)
		r.boost.Store(uint32(s.config.boostOf(&r.last)))
		if r.idle++; r.last.total > 0 {
			r.idle = 0
		}
		all.plus(&r.last)
	})
	s.last = all
	s.totals.plus(&all)
	s.length, s.updatedAt = now.Sub(s.updatedAt), now
	if s.maxRoutes > 0 {
		s.forget()
	}
}

// spend sets the budget's factor by what the time since the last beat cost.
func (s *Sampler) spend(elapsed time.Duration) {
	limits := s.config.Budget
	if limits.TracesPerSecond > 0 {
		always, others := s.demand(elapsed)
		s.budget.planTraces(limits.TracesPerSecond, always, others)
	}
	if limits.CPUCores > 0 {
		s.budget.feelCPU(limits.CPUCores, elapsed)
	}
	if limits.P99 > 0 {
		var w window
		s.everyRoute(func(r *route) {
			v := r.seen.since(&r.p99)
			w.plus(&v)
		})
		s.budget.feelP99(limits.P99, &w, elapsed, s.config.UpdateInterval)
	}
}

// demand is how many traces a second the rates would sample without a budget,
// from each route's arrivals: those of Always rules, and the others.
func (s *Sampler) demand(elapsed time.Duration) (always, others float64) {
	incident, pressure, raised := s.incidents.rate(), s.pressure(), s.raisedRoutes()
	s.everyRoute(func(r *route) {
		incident := max(incident, raised[r])
		b := boost(r.boost.Load())
		for class := range r.perSec {
			n := r.arrivals(class)
			r.perSec[class] = smooth(r.perSec[class], n-r.counted[class], elapsed)
			r.counted[class] = n
			switch s.verdicts[class] {
			case verdictAlways:
				always += r.perSec[class]
			case verdictBase:
				others += r.perSec[class] * s.config.rate(s.baseOf(class), b, incident, pressure)
			}
		}
	})
	return always, others
}

// smooth follows arrivals per second with a time constant of 5 s, so that the
// randomness of arrivals does not shake the rates. A surge (half as much again,
// of enough requests that it is none of chance) is believed at once.
func smooth(old float64, n uint64, elapsed time.Duration) float64 {
	const (
		constant = 5.0 // s
		surge    = 1.5
		enough   = 20
	)
	now := float64(n) / elapsed.Seconds()
	if old == 0 || (n >= enough && now > surge*old) {
		return now
	}
	return old + (now-old)*(1-math.Exp(-elapsed.Seconds()/constant))
}

// SetPressure reports how full the exporter's queue is: 0 (or less) is empty, 1
// (or more) is full, NaN is ignored. All rates fall at once, in proportion, but
// not below MinRate. If [WithPressure] is used, too, the higher value counts.
func (s *Sampler) SetPressure(p float64) {
	if math.IsNaN(p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = clampPressure(p)
	s.publish()
}

// PollPressure is [WithPressure] for what is made after the sampler, such as the provider that it
// samples for: s.PollPressure(provider.Pressure). It replaces the function that was asked before; nil
// ends the asking.
func (s *Sampler) PollPressure(f func() float64) {
	if f != nil {
		s.poll.Store(&f)
		return
	}
	s.poll.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled = 0
	s.publish()
}

func (s *Sampler) pressure() float64 { return max(s.told, s.polled) }

func clampPressure(p float64) float64 {
	if math.IsNaN(p) {
		return 0
	}
	return min(max(p, 0), 1)
}
