package agentreceiver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/cluster/kubernetes"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/span"
)

// maxBatches bounds the queue's batches, in addition to its spans: under light load a
// batch holds the few spans of 50 ms.
const maxBatches = 4096

// agentReceiver feeds the spans of an agent to the pipeline.
type agentReceiver struct {
	cfg  *Config
	log  *zap.Logger
	next consumer.Traces
	obs  *receiverhelper.ObsReport
	run  func(context.Context, agent.Options) error

	tracer  *tracer            // nil before Start
	leave   context.CancelFunc // has feed end, for another receiver to go on
	abandon context.CancelFunc // cancels the calls of the pipeline
	fed     chan struct{}      // closed when feed has ended
	refused atomic.Bool        // the last batch was refused: only changes are logged
}

// tracer is an agent that runs, and the queue of its spans. It may outlive the receiver that started it.
type tracer struct {
	cfg     config.Config
	stop    context.CancelFunc
	ready   chan struct{} // closed when it traces
	ended   chan struct{} // closed when the agent's Run has returned
	err     error         // of Run, once it has ended
	queue   chan batch    // closed after that
	most    int64         // spans in it
	waiting atomic.Int64
	late    atomic.Uint64 // spans lost after the agent ended and its /metrics with it
	host    atomic.Pointer[component.Host]
}

type batch struct {
	traces ptrace.Traces
	spans  int
	lost   agent.LostFunc
}

func newReceiver(set receiver.Settings, cfg *Config, next consumer.Traces, run func(context.Context, agent.Options) error) (*agentReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: "ebpf", ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	return &agentReceiver{cfg: cfg, log: set.Logger, next: next, obs: obs, run: run}, nil
}

// Start returns when the agent traces, or with the reason why it cannot.
func (r *agentReceiver) Start(ctx context.Context, host component.Host) error {
	// Without cancellation, because ctx may end with Start.
	feeding, abandon := context.WithCancel(context.WithoutCancel(ctx))
	taking, leave := context.WithCancel(context.WithoutCancel(ctx))
	r.abandon, r.leave, r.fed = abandon, leave, make(chan struct{})
	r.tracer = r.cfg.keep.take()
	if t := r.tracer; t != nil && len(agent.AtRestart(&t.cfg, &r.cfg.Agent)) > 0 {
		t.stop()
		for b := range t.queue {
			r.pass(feeding, b)
		}
		r.tracer = nil
	}
	if r.tracer == nil {
		r.tracer = r.trace(context.WithoutCancel(ctx), host)
	}
	r.tracer.host.Store(&host)
	go r.feed(feeding, taking)

	select {
	case <-r.tracer.ready:
		return nil
	case <-r.tracer.ended:
		err := r.tracer.err
		if err == nil {
			err = errors.New("the agent ended before it traced")
		}
		return errors.Join(err, r.Shutdown(ctx))
	case <-ctx.Done():
		return errors.Join(ctx.Err(), r.Shutdown(context.WithoutCancel(ctx)))
	}
}

// trace starts an agent.
func (r *agentReceiver) trace(ctx context.Context, host component.Host) *tracer {
	running, stop := context.WithCancel(ctx)
	t := &tracer{
		cfg: r.cfg.Agent, stop: stop, ready: make(chan struct{}), ended: make(chan struct{}),
		queue: make(chan batch, maxBatches), most: int64(r.cfg.Agent.Queue),
	}
	t.host.Store(&host)
	log := r.cfg.log
	if log == nil {
		log = slog.New(zapHandler{r.log})
	}
	var once sync.Once
	go func() {
		defer close(t.queue)
		err := r.run(running, agent.Options{
			Config:  r.cfg.Agent,
			Cluster: kubernetes.Open,
			Reload:  r.cfg.reload,
			Stdout:  os.Stdout,
			Log:     log,
			Consume: t.consume,
			Ready:   func() { once.Do(func() { close(t.ready) }) },
		})
		t.err = err
		close(t.ended)
		select {
		case <-t.ready:
			if err != nil && running.Err() == nil {
				componentstatus.ReportStatus(*t.host.Load(), componentstatus.NewFatalErrorEvent(err))
			}
		default: // Start returns it
		}
	}()
	return t
}

// consume runs on the agent's thread: it copies the spans and does not wait.
func (t *tracer) consume(finished []*span.Span, lost agent.LostFunc) {
	n := len(finished)
	if t.waiting.Load()+int64(n) > t.most {
		lost(agent.LostQueueFull, uint64(n))
		return
	}
	t.waiting.Add(int64(n))
	select {
	case t.queue <- batch{traces(finished), n, lost}:
	default:
		t.waiting.Add(-int64(n))
		lost(agent.LostQueueFull, uint64(n))
	}
}

// feed moves batches from the queue to the pipeline until the queue is closed, or, between two batches, taking is over.
func (r *agentReceiver) feed(ctx, taking context.Context) {
	defer close(r.fed)
	for {
		select {
		case b, ok := <-r.tracer.queue:
			if !ok {
				return
			}
			r.pass(ctx, b)
		case <-taking.Done():
			return
		}
	}
}

func (r *agentReceiver) pass(ctx context.Context, b batch) {
	op := r.obs.StartTracesOp(ctx)
	err := ctx.Err() // after abandon, do not even try
	if err == nil {
		err = r.next.ConsumeTraces(op, b.traces)
	}
	r.obs.EndTracesOp(op, "tare", b.spans, err)
	r.tracer.waiting.Add(-int64(b.spans))
	if err == nil {
		r.refused.Store(false)
		return
	}
	b.lost(agent.LostRefused, uint64(b.spans))
	select {
	case <-r.tracer.ended:
		r.tracer.late.Add(uint64(b.spans))
	default:
	}
	if !r.refused.Swap(true) {
		r.log.Warn("the pipeline refuses spans: they are lost, and counted as tare_lost_total{reason=\"refused\"}", zap.Error(err))
	}
}

// Shutdown stops the agent, which finishes its spans, and waits until the pipeline has
// taken the queue. Spans that it has not taken when ctx ends are lost. An agent that is
// kept goes on.
func (r *agentReceiver) Shutdown(ctx context.Context) error {
	if r.tracer == nil {
		return nil
	}
	defer r.abandon()
	defer r.leave()
	if r.cfg.keep.put(r.tracer) {
		r.leave()
	} else {
		r.tracer.stop()
	}
	var err error
	select {
	case <-r.fed:
	case <-ctx.Done():
		err = ctx.Err()
		r.abandon()
		<-r.fed
	}
	if n := r.tracer.late.Load(); n > 0 {
		r.log.Warn("spans were lost while the agent ended", zap.Uint64("spans", n))
	}
	return err
}
