// Package tracerprocessor is the collector component tare_tracer: spans in,
// whole traces out, each judged complete or incomplete with the reasons
// (span.KeyTraceState and span.KeyTraceReason on its top span). It stands
// behind memory_limiter and before whatever decides about traces.
//
//	processors:
//	  tare_tracer:
//	    settle: 2s         # how long a trace of an SDK waits though nothing seems missing
//	    expiry: 10s        # how long one waits of which something is missing
//	    messages: merge    # the agent's message events become span events
//	    clock: correct     # where parents prove that two clocks differ
//
// One call of the next consumer carries whole traces as they are known then,
// grouped by resource and scope, or late spans (span.KeyLate). All spans of a
// trace have to reach the same collector; with several, route by trace id.
//
// It refuses to hold more than max_spans and max_bytes, to join what is not
// proven to belong together, and to hand an error back to whoever sent the last
// span of a trace: the others of it were accepted long ago. What the next
// consumer does not take is therefore lost, and counted
// (tare_tracer_dropped_spans_total, reason "refused"): let exporters queue and
// block (sending_queue: block_on_overflow), then this component waits, and so do
// the receivers before it. What waits for the rest of its trace is in memory only:
// kill -9 loses it, though its sender was told that it arrived. A batch processor behind it must not have a
// send_batch_max_size: it would split traces.
package tracerprocessor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/assemble"
)

// Type is the component's name in a configuration.
var Type = component.MustNewType("tare_tracer")

// NewFactory makes the factory of tare_tracer.
func NewFactory() processor.Factory {
	return processor.NewFactory(Type, createDefaultConfig,
		processor.WithTraces(createTraces, component.StabilityLevelBeta))
}

func createTraces(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	p := &tracer{
		assembler: assemble.New(cfg.(*Config).options()),
		next:      next, log: set.Logger, stop: make(chan struct{}),
	}
	if err := p.observe(set.MeterProvider); err != nil {
		return nil, err
	}
	return p, nil
}

// tick is how often waiting times are looked at, and so how exactly they are kept.
const tick = 50 * time.Millisecond

// tracer runs an assembler with a clock.
type tracer struct {
	assembler *assemble.Assembler
	next      consumer.Traces
	log       *zap.Logger
	refused   atomic.Uint64 // spans that the next consumer did not take
	unobserve func() error

	mu       sync.RWMutex // held for reading by whoever adds
	stopped  bool
	stop     chan struct{}
	done     sync.WaitGroup
	stopOnce sync.Once
}

func (p *tracer) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

func (p *tracer) Start(context.Context, component.Host) error {
	p.done.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		var out assemble.Out
		for {
			select {
			case <-p.stop:
				return
			case now := <-t.C:
				p.assembler.Expire(now, &out)
				p.send(&out)
			}
		}
	})
	return nil
}

// ConsumeTraces owns td from then on. It waits while the next consumer does.
func (p *tracer) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	var out assemble.Out
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.assembler.Add(td, time.Now(), &out)
	if p.stopped { // somebody sends after the end: nothing may stay here
		p.assembler.Flush(&out)
	}
	p.send(&out)
	return nil
}

// Shutdown gives out everything, complete or not.
func (p *tracer) Shutdown(context.Context) error {
	p.stopOnce.Do(func() { close(p.stop) })
	p.done.Wait()
	p.mu.Lock()
	first := !p.stopped
	p.stopped = true
	p.mu.Unlock()
	if !first {
		return nil
	}
	var out assemble.Out
	p.assembler.Flush(&out)
	p.send(&out)
	return p.unobserve()
}

// send hands on what was given out. The context is not that of a request: the
// spans are those of many.
func (p *tracer) send(out *assemble.Out) {
	for _, td := range out.Take() {
		n := td.SpanCount() // it is the next consumer's afterwards
		if err := p.next.ConsumeTraces(context.Background(), td); err != nil {
			p.refused.Add(uint64(n))
			p.log.Error("The next consumer did not take traces: they are lost.", zap.Int("spans", n), zap.Error(err))
		}
	}
}
