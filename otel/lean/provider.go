package lean

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tare-trace/tare/otel/keep"
)

// TracerProvider makes tracers whose spans are written as OTLP at once. It runs one goroutine,
// which Shutdown ends.
type TracerProvider struct {
	embedded.TracerProvider

	sampler         sdktrace.Sampler
	known           *known // sampler, if it is one of the SDK's
	usesAttributes  bool
	ids             sdktrace.IDGenerator // nil: random
	limits          sdktrace.SpanLimits
	attributeLimits valueLimits // of attributes of spans
	redactor        Redactor
	ignoresPanics   bool
	clock           *clock

	keeper   *keeper // nil without WithKeep
	keepsAll bool    // the sampler is keep.Sampler around known

	stopped atomic.Bool
	queue   *queue
	worker  *worker   // nil without an exporter
	records sync.Pool // *record
	// near holds shards, each processor its own: what is put into a sync.Pool comes back to the same
	// processor, unless the garbage collector has emptied the pool meanwhile. That only costs speed.
	near sync.Pool // *shard

	mu      sync.Mutex
	tracers map[instrumentation.Scope]*Tracer
	heads   [][]byte // by scope number: the ScopeSpans message without spans
	meter   metric.Registration
}

var _ trace.TracerProvider = (*TracerProvider)(nil)

// NewTracerProvider makes a provider. A variable of the environment that cannot be understood is
// reported to otel.Handle, and its default is used.
func NewTracerProvider(opts ...Option) *TracerProvider {
	c := config{limits: sdktrace.NewSpanLimits()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if c.sampler == nil {
		var err error
		if c.sampler, err = samplerFromEnv(); err != nil {
			otel.Handle(err)
		}
	}
	if c.sampler == nil {
		c.sampler = sdktrace.ParentBased(sdktrace.AlwaysSample())
	}
	if c.resource == nil {
		c.resource = resource.Default()
	}
	if c.limits.AttributeValueDepthLimit == 0 {
		c.limits.AttributeValueDepthLimit = sdktrace.DefaultAttributeValueDepthLimit
	}
	var policy *keep.Compiled
	known, keepsAll := recognize(c.sampler), false
	if c.keep != nil {
		var err error
		if policy, err = c.keep.Compile(); err != nil {
			otel.Handle(fmt.Errorf("lean: WithKeep is left out: %w", err))
		} else if !strings.HasPrefix(c.sampler.Description(), "Keep{") {
			c.sampler, keepsAll = keep.Sampler(c.sampler), true
		}
	}
	batch := c.batch.withDefaults()
	p := &TracerProvider{
		sampler: c.sampler, known: known, keepsAll: keepsAll, usesAttributes: usesAttributes(c.sampler), ids: c.ids, limits: c.limits,
		attributeLimits: valueLimits{depth: c.limits.AttributeValueDepthLimit, length: c.limits.AttributeValueLengthLimit},
		redactor:        c.redactor, ignoresPanics: c.ignoresPanics,
		clock: newClock(), queue: newQueue(batch, c.exporter != nil),
		tracers: make(map[instrumentation.Scope]*Tracer),
	}
	p.near.New = func() any { return p.queue.anyShard() }
	p.records.New = func() any { return &record{buf: make([]byte, 0, 1024), shard: p.queue.anyShard()} }
	if policy != nil {
		p.keeper = newKeeper(p, policy)
	}
	if c.exporter != nil {
		p.worker = &worker{
			queue: p.queue, keeper: p.keeper, exporter: c.exporter, batch: batch, clock: p.clock, head: p.head,
			resource: resourceHead(c.resource, c.redactor),
			flush:    make(chan chan error), stop: make(chan context.Context, 1), done: make(chan struct{}),
		}
		p.worker.ctx, p.worker.cancel = context.WithCancel(context.Background())
		go p.worker.run()
	}
	if c.meters != nil {
		p.observe(c.meters)
	}
	return p
}

// Tracer implements trace.TracerProvider. After Shutdown it returns a tracer that does nothing.
func (p *TracerProvider) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	if p.stopped.Load() {
		return noop.NewTracerProvider().Tracer(name, opts...)
	}
	return p.tracer(name, opts)
}

func (p *TracerProvider) tracer(name string, opts []trace.TracerOption) *Tracer {
	c := trace.NewTracerConfig(opts...)
	if name == "" {
		name = "go.opentelemetry.io/otel/sdk/tracer" // the SDK's default
	}
	scope := instrumentation.Scope{
		Name: name, Version: c.InstrumentationVersion(), SchemaURL: c.SchemaURL(), Attributes: c.InstrumentationAttributes(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tracers[scope]
	if t == nil {
		t = &Tracer{origin: origin{p: p, scope: len(p.heads)}}
		p.heads = append(p.heads, scopeHead(scope, p.limits, p.redactor))
		p.tracers[scope] = t
	}
	return t
}

// head is the ScopeSpans message of a scope, without spans.
func (p *TracerProvider) head(scope int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heads[scope]
}

// text returns a text as the redactor leaves it.
func (p *TracerProvider) text(s string) string {
	if p.redactor == nil {
		return s
	}
	return p.redactor.Text(s)
}

// ForceFlush exports every span that ended before the call. If ctx ends first, its error is
// returned; the export goes on.
func (p *TracerProvider) ForceFlush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.worker == nil || p.stopped.Load() {
		return nil
	}
	reply := make(chan error, 1)
	select {
	case p.worker.flush <- reply:
	case <-p.worker.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown exports what is queued, shuts the exporter down and ends the provider's goroutine. If
// ctx ends first, a running export is cancelled, what is left is dropped and counted, and ctx's
// error returned. From its first call on, spans are no longer recorded; another call does nothing.
func (p *TracerProvider) Shutdown(ctx context.Context) error {
	if !p.stopped.CompareAndSwap(false, true) {
		return nil
	}
	p.mu.Lock()
	meter := p.meter
	p.mu.Unlock()
	if meter != nil {
		if err := meter.Unregister(); err != nil {
			otel.Handle(err)
		}
	}
	if p.worker == nil {
		return nil
	}
	p.worker.stop <- ctx
	select {
	case <-p.worker.done:
		return p.worker.err
	case <-ctx.Done():
	}
	p.worker.cancel()
	select {
	case <-p.worker.done:
		return p.worker.err
	default:
		return ctx.Err()
	}
}
