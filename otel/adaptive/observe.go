package adaptive

import "time"

// Observation is a request that ended.
type Observation struct {
	// Route is what [WithRoutes] tells requests apart by; without it, it does
	// not matter.
	Route string
	// Failed is true for what the service did wrong: for HTTP a status of 500
	// or above, or a timeout (Hoikka 2026, 4.1: error rate).
	Failed bool
	// Duration from receipt to answer; less than 0 counts as 0.
	Duration time.Duration
}

// Observe tells the sampler about a request. Call it for every one that should
// count (health checks hardly), sampled or not. It takes no lock and allocates nothing, but the first time that it sees
// a route.
func (s *Sampler) Observe(o Observation) {
	r := s.rest
	if s.maxRoutes > 0 {
		r = s.learn(o.Route)
	}
	r.seen.add(o.Duration, o.Failed, int64(o.Duration) > s.snapshot.Load().slow)
}
