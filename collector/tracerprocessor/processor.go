// Package tracerprocessor is the collector component tare_tracer. It groups spans into
// traces and writes on the top span of each whether the trace is complete, and if not
// why (semconv.TraceState, semconv.TraceReason). Place it after memory_limiter and
// before any component that decides about whole traces.
//
//	processors:
//	  tare_tracer:
//	    settle: 2s         # how long a trace of SDK spans waits though nothing is missing
//	    expiry: 10s        # how long an incomplete trace waits
//	    messages: merge    # the agent's message events become span events
//	    clock: correct     # if parents prove that two clocks differ
//
// Each call of the next consumer carries whole traces, grouped by resource and scope,
// or late spans (semconv.Late). All spans of a trace have to reach the same collector;
// if there are several, route by trace id. A batch processor behind this component must
// not set send_batch_max_size: it would split traces.
//
// The component holds at most max_spans and max_bytes, and joins only what provably
// belongs together. It returns no errors of the next consumer, because most spans of a
// trace were accepted in earlier calls. Spans that the next consumer refuses are
// therefore lost, and counted (tare_tracer_dropped_spans_total, reason "refused"). To
// avoid this, let exporters queue and block (sending_queue: block_on_overflow): then
// this component waits, and so do the receivers before it. Without a journal (Config.Journal)
// waiting spans are in memory only: kill -9 loses them although their senders were told that
// they arrived.
package tracerprocessor

import (
	"context"
	"errors"
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
	c := cfg.(*Config)
	p := &tracer{
		assembler: assemble.New(c.options()), journal: c.Journal, journalMost: c.MaxJournalBytes, id: set.ID,
		waits: c.MaxAge, most: c.MaxSpans,
		next: next, log: set.Logger, stop: make(chan struct{}),
		journalRead: make(chan struct{}),
	}
	if err := p.observe(set.MeterProvider); err != nil {
		return nil, err
	}
	return p, nil
}

// tick is how often waiting times are checked, and so how exact they are.
const tick = 50 * time.Millisecond

// tracer runs an assembler with a clock.
type tracer struct {
	assembler *assemble.Assembler
	next      consumer.Traces
	log       *zap.Logger
	refused   atomic.Uint64 // spans that the next consumer refused
	reread    atomic.Uint64 // spans that were read from the journal
	unkept    atomic.Uint64 // spans for which the journal had no room
	unobserve func() error

	waits       time.Duration // at most
	most        int           // spans that wait
	journal     *component.ID
	journalMost int
	id          component.ID
	keeper      *keeper // nil without a journal

	journalBytes atomic.Int64
	journalRead  chan struct{} // closed when what an earlier process left has been read

	mu       sync.RWMutex // held for reading while spans are added and emitted
	stopped  bool
	stop     chan struct{}
	done     sync.WaitGroup
	stopOnce sync.Once
}

func (p *tracer) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

func (p *tracer) Start(_ context.Context, host component.Host) error {
	if p.journal != nil {
		j, from, err := openJournal(host, *p.journal, p.id, p.journalMost)
		if err != nil {
			return err
		}
		p.keeper = newKeeper(j, from, p.next, p.refuse)
		p.done.Go(func() { p.readJournal(context.Background()) })
	} else {
		p.log.Warn("There is no journal: spans are acknowledged while they are in memory only, and those that wait here are lost if the process is killed. Set journal to a tare_store extension, as the default configuration does.",
			zap.Duration("they_wait_up_to", p.waits), zap.Int("spans_at_most", p.most))
	}
	p.done.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		swept := time.Now()
		for {
			select {
			case <-p.stop:
				return
			case now := <-t.C:
				p.expire(now)
				if p.keeper != nil && now.Sub(swept) >= freeEvery {
					swept = now
					p.sweep()
				}
			}
		}
	})
	return nil
}

func (p *tracer) expire(now time.Time) {
	var out assemble.Out
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.assembler.Expire(now, &out)
	p.send(&out)
}

// ConsumeTraces owns td from then on. It blocks while the next consumer blocks.
func (p *tracer) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	if p.keeper == nil {
		p.add(td)
		return nil
	}
	ticket, err := p.keeper.Append(td)
	if err != nil {
		p.unkept.Add(uint64(td.SpanCount())) //nolint:gosec // a count
		return err                           // its sender may try again
	}
	ticket.Done(p.add(td))
	return nil
}

// add adds spans to those that wait, and returns the time with which it did.
func (p *tracer) add(td ptrace.Traces) time.Time {
	var out assemble.Out
	p.mu.RLock()
	defer p.mu.RUnlock()
	now := time.Now()
	p.assembler.Add(td, now, &out)
	if p.stopped { // nothing may wait after Shutdown
		p.assembler.Flush(&out)
	}
	p.send(&out)
	return now
}

// Shutdown emits all traces, complete or not.
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
	var err error
	if p.keeper != nil {
		p.keeper.stop()
		err = p.keeper.Close()
		p.sweep()
	}
	return errors.Join(err, p.unobserve())
}

// send passes emitted spans to the next consumer, without the context of a request:
// they arrived with many requests.
func (p *tracer) send(out *assemble.Out) {
	if p.keeper != nil {
		p.keeper.emit(out.Take())
		return
	}
	for _, td := range out.Take() {
		n := td.SpanCount() // the next consumer owns td afterwards
		if err := p.next.ConsumeTraces(context.Background(), td); err != nil {
			p.refuse(n, err)
		}
	}
}

func (p *tracer) refuse(spans int, err error) {
	p.refused.Add(uint64(spans))
	p.log.Error("The next consumer refused traces; their spans are lost.", zap.Int("spans", spans), zap.Error(err))
}
