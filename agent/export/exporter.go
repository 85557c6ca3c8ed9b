// Package export sends finished spans to an OTLP receiver, without ever making
// the span builder wait.
//
// Export encodes spans into a queue bounded in spans and in bytes; one
// goroutine sends them in batches through the exporters of otel/lean, to which
// every OTEL_EXPORTER_OTLP_* variable means what it means elsewhere. A
// receiver that is slow, gone or refusing costs nothing but the queue: what
// does not fit, or is given up after retries, is counted with a reason.
//
// Delivery is at least once: a batch whose answer was lost is sent again.
//
// It refuses to sample, to change spans, to keep them on disk, to block, and
// to speak OTLP/JSON.
package export

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel"

	"github.com/tare-trace/tare/span"
)

// Reasons for which a span is lost, as reported to the LossCounter.
const (
	ReasonQueueFull    = "queue_full"    // the receiver does not keep up, or is away
	ReasonExportFailed = "export_failed" // refused, or given up after Retry.For
	ReasonRejected     = "rejected"      // the receiver took a batch but not this span of it
	ReasonShutdown     = "shutdown"      // too late, or not sent before Shutdown's context ended
)

// Reasons lists all of them, so that counters can be published from zero.
func Reasons() []string {
	return []string{ReasonQueueFull, ReasonExportFailed, ReasonRejected, ReasonShutdown}
}

// LossCounter counts lost spans. It is called from several goroutines, n > 0.
type LossCounter interface {
	Lost(reason string, n uint64)
}

// Exporter is a bounded queue in front of an OTLP receiver. It is also a
// prometheus.Collector.
//
// Every span given to Export is, once Shutdown has returned, either in
// tare_export_spans_total or in the LossCounter.
type Exporter struct {
	queue  *queue
	client client
	reach  *reach
	cfg    Config
	scope  scope
	loss   LossCounter
	log    *slog.Logger

	ctx    context.Context // of the sender; ends when Shutdown runs out of time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the sender has returned

	stopped       atomic.Bool
	sentSpans     atomic.Uint64
	sentBytes     atomic.Uint64
	failedBatches atomic.Uint64
}

var errShutdown = errors.New("exporter shut down")

// New starts an exporter. It does not wait for the receiver, which may come
// later. ctx bounds New only; Shutdown ends the exporter. The clients hand what a
// receiver remarks on a request that it took to OpenTelemetry's error handler,
// which New sets, so that it comes to Config.Log.
func New(ctx context.Context, cfg Config) (*Exporter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := newClient(cfg, true)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		cfg.Log.Warn("receiver returned a partial-success message", "remark", err)
	}))
	return start(ctx, cfg, client), nil
}

func start(ctx context.Context, cfg Config, client client) *Exporter {
	e := &Exporter{
		queue:  newQueue(cfg),
		client: client,
		reach:  newReach(cfg),
		cfg:    cfg,
		scope:  scope{name: cfg.ScopeName, version: cfg.ScopeVersion},
		loss:   cfg.Loss,
		log:    cfg.Log,
		done:   make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go e.send()
	return e
}

// Export queues spans, or drops and counts them. It never waits for the
// receiver. Spans are encoded before Export returns: the caller may reuse them
// and their attributes at once. Only the Resource is kept, until the spans are
// sent; it must not change (see span.Resource). Safe for concurrent use.
func (e *Exporter) Export(spans []*span.Span) {
	if len(spans) == 0 {
		return
	}
	if lost, reason := e.queue.push(spans); lost > 0 {
		e.loss.Lost(reason, uint64(lost))
	}
}

// Flush sends what was queued before the call without waiting for batches to
// fill, and returns when each of those spans was taken by the receiver or
// counted as lost; an error is ctx's.
func (e *Exporter) Flush(ctx context.Context) error {
	return e.queue.flush(ctx)
}

// Shutdown refuses further spans, sends the queue, and returns when nothing of
// the exporter is left running. If ctx ends first, the rest is counted as lost
// and Shutdown returns ctx's error. With the receiver away and a ctx without
// end, it lasts up to Retry.For per batch. Later calls return nil at once.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e.stopped.Swap(true) {
		return nil
	}
	e.queue.close()
	var err error
	select {
	case <-e.done:
	case <-ctx.Done():
		err = ctx.Err()
		e.cancel(errShutdown)
		<-e.done
	}
	e.cancel(errShutdown)
	// Nothing is in flight any more, so this does not wait; ctx may be over,
	// which the client would take for a reason to complain.
	return errors.Join(err, e.client.Shutdown(context.WithoutCancel(ctx)))
}
