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
	"github.com/tare-trace/tare/span"
)

// maxBatches bounds the queue's batches, in addition to its spans: under light load a
// batch holds the few spans of 50 ms.
const maxBatches = 4096

// agentReceiver is an agent and the queue of its spans.
type agentReceiver struct {
	cfg  *Config
	log  *zap.Logger
	next consumer.Traces
	obs  *receiverhelper.ObsReport
	run  func(context.Context, agent.Options) error

	stop    context.CancelFunc // stops the agent; nil before Start
	agent   sync.WaitGroup     // the agent's Run
	queue   chan batch
	waiting atomic.Int64       // spans in the queue
	abandon context.CancelFunc // cancels the calls of the pipeline
	fed     chan struct{}      // closed when the agent has ended and the queue is empty
	refused atomic.Bool        // the last batch was refused: only changes are logged
	late    atomic.Uint64      // spans lost after the agent ended and its /metrics with it
	ended   atomic.Bool
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
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	feeding, abandon := context.WithCancel(context.WithoutCancel(ctx))
	r.stop, r.abandon = stop, abandon
	r.queue, r.fed = make(chan batch, maxBatches), make(chan struct{})
	log := r.cfg.log
	if log == nil {
		log = slog.New(zapHandler{r.log})
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	r.agent.Go(func() {
		err := r.run(running, agent.Options{
			Config:  r.cfg.Agent,
			Cluster: kubernetes.Open,
			Reload:  r.cfg.reload,
			Stdout:  os.Stdout,
			Log:     log,
			Consume: r.consume,
			Ready:   func() { once.Do(func() { close(ready) }) },
		})
		r.ended.Store(true)
		close(r.queue)
		failed <- err
		select {
		case <-ready:
			if err != nil && running.Err() == nil {
				componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
			}
		default: // Start returns it
		}
	})
	go r.feed(feeding)

	select {
	case <-ready:
		return nil
	case err := <-failed:
		if err == nil {
			err = errors.New("the agent ended before it traced")
		}
		return errors.Join(err, r.Shutdown(ctx))
	case <-ctx.Done():
		return errors.Join(ctx.Err(), r.Shutdown(context.WithoutCancel(ctx)))
	}
}

// consume runs on the agent's thread: it copies the spans and does not wait.
func (r *agentReceiver) consume(finished []*span.Span, lost agent.LostFunc) {
	n := len(finished)
	if r.waiting.Load()+int64(n) > int64(r.cfg.Agent.Queue) {
		lost(agent.LostQueueFull, uint64(n))
		return
	}
	r.waiting.Add(int64(n))
	select {
	case r.queue <- batch{traces(finished), n, lost}:
	default:
		r.waiting.Add(-int64(n))
		lost(agent.LostQueueFull, uint64(n))
	}
}

// feed moves batches from the queue to the pipeline until the queue is closed.
func (r *agentReceiver) feed(ctx context.Context) {
	defer close(r.fed)
	for b := range r.queue {
		op := r.obs.StartTracesOp(ctx)
		err := ctx.Err() // after abandon, do not even try
		if err == nil {
			err = r.next.ConsumeTraces(op, b.traces)
		}
		r.obs.EndTracesOp(op, "tare", b.spans, err)
		r.waiting.Add(-int64(b.spans))
		if err == nil {
			r.refused.Store(false)
			continue
		}
		b.lost(agent.LostRefused, uint64(b.spans))
		if r.ended.Load() {
			r.late.Add(uint64(b.spans))
		}
		if !r.refused.Swap(true) {
			r.log.Warn("the pipeline refuses spans: they are lost, and counted as tare_lost_total{reason=\"refused\"}", zap.Error(err))
		}
	}
}

// Shutdown stops the agent, which finishes its spans, and waits until the pipeline has
// taken the queue. Spans that it has not taken when ctx ends are lost.
func (r *agentReceiver) Shutdown(ctx context.Context) error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	defer r.abandon()
	stopped := make(chan struct{})
	go func() {
		r.agent.Wait()
		<-r.fed
		close(stopped)
	}()
	var err error
	select {
	case <-stopped:
	case <-ctx.Done():
		err = ctx.Err()
		r.abandon()
		<-stopped
	}
	if n := r.late.Load(); n > 0 {
		r.log.Warn("spans were lost while the agent ended", zap.Uint64("spans", n))
	}
	return err
}
