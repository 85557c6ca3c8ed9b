package adaptive

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/internal/bucket"
	"github.com/tare-trace/tare/otel/rule"
)

// Sampler samples with rates that follow the service's errors and latency. All
// methods may be called concurrently.
type Sampler struct {
	// What decisions read. It changes once an interval at most.
	snapshot       atomic.Pointer[snapshot]
	routes         atomic.Pointer[routeTable]
	rest           *route // what is not in routes
	rules          rule.List[Rule]
	verdicts       []verdict // by class
	maxRoutes      int       // 0: all share rest
	routeAttribute attribute.Key
	follow         bool // a remote parent
	recordOnly     bool
	usesAttributes bool
	clock          clock
	started        time.Time
	tally          *tally
	bucket         *bucket.Bucket
	_              [64]byte // what follows is written more often

	poll  atomic.Pointer[func() float64] // pressure; nil: nobody is asked
	watch *fileWatch
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	registration metric.Registration // nil without metrics

	mu sync.Mutex // guards what follows, and the writing of snapshot and routes
	control
}

var _ sdktrace.Sampler = (*Sampler)(nil)

// clock tells the time, with Go's monotonic reading.
type clock func() time.Time

// New starts a sampler. Its one goroutine runs until [Sampler.Shutdown].
func New(opts ...Option) (*Sampler, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	s := newSampler(o)
	if o.meters != nil {
		if err := s.registerMetrics(o.meters); err != nil {
			return nil, fmt.Errorf("adaptive: metrics: %w", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s, nil
}

// newSampler makes a sampler whose rates change only when step is called.
func newSampler(o options) *Sampler {
	if o.clock == nil {
		o.clock = time.Now
	}
	entries := make([]rule.Entry[Rule], len(o.rules))
	verdicts := []verdict{verdictBase}
	for i, r := range o.rules {
		entries[i] = rule.Entry[Rule]{Rule: r.match, Value: r}
		verdicts = append(verdicts, r.kind)
	}
	s := &Sampler{
		rules:          rule.NewList(entries...),
		verdicts:       verdicts,
		maxRoutes:      o.maxRoutes,
		routeAttribute: o.routeAttribute,
		follow:         !o.ignoreParent,
		recordOnly:     o.recordOnly,
		clock:          o.clock,
		started:        o.clock(),
		tally:          new(tally),
		bucket:         new(bucket.Bucket),
		wake:           make(chan struct{}, 1),
		done:           make(chan struct{}),
	}
	if o.pressure != nil {
		s.poll.Store(&o.pressure)
	}
	if o.incidentFile != "" {
		s.watch = &fileWatch{path: o.incidentFile}
	}
	s.usesAttributes = s.rules.UsesAttributes() || o.routeAttribute != ""
	s.rest = newRoute("", s.classes())
	s.routes.Store(&routeTable{})
	s.control = control{config: o.config, budget: newBudgetControl(), beatAt: s.started, updatedAt: s.started}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
	return s
}

// ShouldSample implements [sdktrace.Sampler]. It takes no lock, and allocates
// only where a tracestate from elsewhere has to be changed.
func (s *Sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if span := trace.SpanFromContext(p.ParentContext); span != noSpan {
		if psc := span.SpanContext(); psc.IsValid() || psc.TraceState().Len() > 0 {
			return s.decideStated(&p, psc)
		}
	}
	n := s.snapshot.Load()
	r := consistent.OfTraceID(p.TraceID)
	if !n.quick.Samples(r) {
		s.tally.add(unsampled)
		if s.recordOnly {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
		}
		return sdktrace.SamplingResult{}
	}
	if n.plain {
		s.tally.add(sampled)
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: n.state}
	}
	e, o := s.decide(&p, n, r)
	s.tally.add(o)
	switch {
	case o == sampled:
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: e.state}
	case s.recordOnly && o != never:
		return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
	}
	return sdktrace.SamplingResult{}
}

// noSpan is what the API hands out for a context without a span. To compare
// with it is cheaper than to copy its empty span context and look into that.
var noSpan = trace.SpanFromContext(context.Background())

// decideStated is ShouldSample where something came from elsewhere: a parent to
// follow, or a tracestate. That may hold the randomness, and the threshold has
// to be put into it, or taken out: with the one that it has, nothing was
// sampled here.
func (s *Sampler) decideStated(p *sdktrace.SamplingParameters, psc trace.SpanContext) sdktrace.SamplingResult {
	if psc.IsValid() && (s.follow || !psc.IsRemote()) {
		res := consistent.FollowParent(psc)
		if s.recordOnly && psc.IsRemote() && res.Decision == sdktrace.Drop {
			res.Decision = sdktrace.RecordOnly
		}
		return res
	}
	ts := psc.TraceState()
	e, o := s.decide(p, s.snapshot.Load(), consistent.OfParent(ts, p.TraceID))
	s.tally.add(o)
	if o == sampled {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: consistent.WithThreshold(ts, e.threshold)}
	}
	res := sdktrace.SamplingResult{Tracestate: consistent.WithoutThreshold(ts)}
	if s.recordOnly && o != never {
		res.Decision = sdktrace.RecordOnly
	}
	return res
}

// decide finds the rate of a span and applies it, and the budget.
func (s *Sampler) decide(p *sdktrace.SamplingParameters, n *snapshot, r consistent.Randomness) (*entry, outcome) {
	possible := n.lowest.Samples(r) // by some rate
	if !possible && n.limit.IsZero() {
		return nil, unsampled
	}
	class := 0
	if s.rules.Len() > 0 {
		class = s.rules.Index(rule.Span{Name: p.Name, Kind: p.Kind, Attributes: p.Attributes}) + 1
		if s.verdicts[class] == verdictNever {
			if !possible {
				return nil, unsampled
			}
			return nil, never
		}
	}
	route := s.rest
	if s.maxRoutes > 0 {
		route = s.routeOf(s.nameAt(p))
	}
	if !n.limit.IsZero() {
		route.arrive(class)
	}
	e := n.entry(class, route)
	if !e.threshold.Samples(r) {
		return nil, unsampled
	}
	if !n.limit.IsZero() && !s.bucket.Take(int64(s.clock().Sub(s.started)), n.limit) {
		return nil, capped
	}
	return e, sampled
}

// nameAt is a span's route when it starts.
func (s *Sampler) nameAt(p *sdktrace.SamplingParameters) string {
	if s.routeAttribute != "" {
		if v, ok := routeIn(p.Attributes, s.routeAttribute); ok {
			return v
		}
	}
	return p.Name
}

func routeIn(attributes []attribute.KeyValue, key attribute.Key) (string, bool) {
	for i := len(attributes) - 1; i >= 0; i-- {
		if attributes[i].Key == key && attributes[i].Value.Type() == attribute.STRING {
			return attributes[i].Value.AsString(), true
		}
	}
	return "", false
}

// UsesAttributes reports whether decisions read attributes: only then
// instrumentation has to collect them before it asks.
func (s *Sampler) UsesAttributes() bool { return s.usesAttributes }

// Rate is the share of traces that is sampled now where no rule says otherwise
// and no route was learned: as decisions apply it, after boosts, incident,
// pressure and budget.
func (s *Sampler) Rate() float64 { return s.rateOf(s.rest) }

// RateOf is Rate for a route, by its name.
func (s *Sampler) RateOf(route string) float64 { return s.rateOf(s.routeOf(route)) }

func (s *Sampler) rateOf(r *route) float64 {
	return s.snapshot.Load().entry(0, r).threshold.Probability()
}

// Config returns the configuration that is in force.
func (s *Sampler) Config() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// Set replaces the configuration, at once and as a whole, or not at all if
// something is out of range. Boosts that are on stay on until the next
// recomputation, with their new multipliers; a new interval counts from the
// last one.
func (s *Sampler) Set(c Config) error {
	return s.change(func(old *Config) error { *old = c; return nil })
}

// change lets f edit a copy of the configuration, and puts it into force.
func (s *Sampler) change(f func(*Config) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.config
	if err := f(&c); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	s.config = c
	s.budget.configure(c.Budget)
	s.publish()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Shutdown ends the goroutine, and the reporting of metrics. Decisions go on
// with the last rates.
func (s *Sampler) Shutdown(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
		return s.unregisterMetrics()
	case <-ctx.Done():
		return fmt.Errorf("adaptive: shutdown: %w", ctx.Err())
	}
}
