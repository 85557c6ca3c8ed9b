package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/internal/bucket"
)

// Mode is the way in which the limit is kept; the package's documentation
// compares them.
type Mode uint8

const (
	// Leaky samples everything while there are tokens, and then nothing.
	Leaky Mode = iota
	// Consistent samples with a probability that follows the traffic.
	Consistent
)

// String returns leaky or consistent.
func (m Mode) String() string {
	switch m {
	case Leaky:
		return "leaky"
	case Consistent:
		return "consistent"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Option configures a [Sampler].
type Option func(*config)

type config struct {
	burst  int
	mode   Mode
	parent bool
}

// WithBurst sets how many traces may start at once after a pause: the size of
// the bucket, at least 1. The default is the limit of one second, at least 1.
func WithBurst(traces int) Option { return func(c *config) { c.burst = max(traces, 1) } }

// WithMode sets the mode. The default is [Leaky]; a mode that is neither counts
// as Leaky.
func WithMode(m Mode) Option { return func(c *config) { c.mode = m } }

// WithoutParent makes the sampler decide for every span by itself, whatever the
// parent says. Then the limit is one of spans, and traces have holes.
func WithoutParent() Option { return func(c *config) { c.parent = false } }

// Sampler limits the traces that start in a second. Its methods may be called
// concurrently.
type Sampler struct {
	start       time.Time
	clock       func() int64 // ns since start, for tests; nil: the monotonic clock
	none        bool
	parent      bool
	mode        Mode
	description string

	bucket   bucket.Bucket
	limit    bucket.Limit
	follower follower
	refused  atomic.Uint64
	sampled  atomic.Uint64
}

var _ sdktrace.Sampler = (*Sampler)(nil)

// maxLimit is one token per nanosecond.
const maxLimit = 1e9

// New returns a sampler that starts at most tracesPerSecond traces a second, on
// average, and a burst at once. Fractions are allowed: 0.1 is one in ten
// seconds. 0, less and NaN sample nothing; more than 1e9 is no limit. The time
// between tokens is rounded up to nanoseconds: a limit of a million may be
// kept 0.1% too low, never too high.
func New(tracesPerSecond float64, opts ...Option) *Sampler {
	s := &Sampler{start: time.Now(), none: !(tracesPerSecond > 0)}
	limit := min(tracesPerSecond, maxLimit)
	if s.none {
		limit = 0
	}
	c := config{burst: max(1, int(math.Ceil(limit))), parent: true}
	for _, o := range opts {
		o(&c)
	}
	if c.mode != Consistent {
		c.mode = Leaky
	}
	s.mode, s.parent = c.mode, c.parent
	if !s.none {
		s.limit = bucket.LimitOf(limit, float64(c.burst))
		s.follower.set(limit, c.burst)
	}
	s.description = describe(limit, c)
	return s
}

func describe(limit float64, c config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "RateLimiting{%g,burst:%d,mode:%s}", limit, c.burst, c.mode)
	if c.parent {
		return "ParentBased{root:" + b.String() + "}"
	}
	return b.String()
}

// ShouldSample implements [sdktrace.Sampler].
func (s *Sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	psc := trace.SpanContextFromContext(p.ParentContext)
	if s.parent && psc.IsValid() {
		return consistent.FollowParent(psc)
	}
	if s.none {
		return sdktrace.SamplingResult{Tracestate: consistent.WithoutThreshold(psc.TraceState())}
	}
	if s.mode == Consistent {
		return s.follow(psc, p.TraceID)
	}
	result := sdktrace.SamplingResult{Tracestate: consistent.WithoutThreshold(psc.TraceState())}
	if s.bucket.Take(s.now(), s.limit) {
		s.sampled.Add(1)
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

func (s *Sampler) follow(psc trace.SpanContext, id trace.TraceID) sdktrace.SamplingResult {
	now := s.now()
	w := s.follower.at(now)
	result := w.rate.Decide(psc, id)
	if result.Decision == sdktrace.Drop {
		return result
	}
	w.chosen.Add(1)
	if !s.bucket.Take(now, s.limit) {
		s.refused.Add(1)
		// Written once only: all cores read it.
		if !w.refused.Load() {
			w.refused.Store(true)
		}
		result.Decision = sdktrace.Drop
		result.Tracestate = consistent.WithoutThreshold(psc.TraceState())
		return result
	}
	s.sampled.Add(1)
	if w.refused.Load() {
		result.Tracestate = consistent.WithoutThreshold(psc.TraceState())
	}
	return result
}

// now returns the nanoseconds since the sampler was made. time.Since reads the
// monotonic clock only, time.Now the wall clock, too, at twice the price.
func (s *Sampler) now() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return int64(time.Since(s.start))
}

// Description implements [sdktrace.Sampler].
func (s *Sampler) Description() string { return s.description }

// UsesAttributes returns false: attributes are not looked at.
func (s *Sampler) UsesAttributes() bool { return false }

// Stats is what a sampler has done by itself, decisions of parents aside.
type Stats struct {
	// Sampled is the number of traces (spans, with [WithoutParent]) sampled.
	Sampled uint64
	// Refused is the number of those that the probability of the mode
	// Consistent had chosen and the bucket refused. The mode Leaky does not
	// count what it refuses: that would be most of the traffic, and a counter
	// that every core writes would cost more than the decision.
	Refused uint64
	// Probability is the one in force in the mode Consistent; 0 in Leaky.
	Probability float64
}

// Stats returns the counts so far.
func (s *Sampler) Stats() Stats {
	st := Stats{Sampled: s.sampled.Load(), Refused: s.refused.Load()}
	if w := s.follower.now.Load(); w != nil && s.mode == Consistent {
		st.Probability = w.rate.Threshold().Probability()
	}
	return st
}
