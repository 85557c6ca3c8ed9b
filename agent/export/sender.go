package export

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

var errGaveUp = errors.New("gave up retrying")

// send takes batches until the queue is closed and empty. Once the context of
// the exporter is over, it only counts what is left.
func (e *Exporter) send() {
	defer close(e.done)
	var (
		g       grouper
		failing bool
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		b, wait, done := e.queue.take()
		switch {
		case done:
			return
		case b != nil:
			e.sendBatch(&g, b, &failing)
			e.queue.settle(b)
		default:
			var due <-chan time.Time
			if wait > 0 {
				timer.Reset(wait)
				due = timer.C
			}
			select {
			case <-e.queue.wake:
			case <-due:
			}
		}
	}
}

// sendBatch sends and counts one batch. failing remembers the last outcome:
// the log tells when it changes, the counters tell the rest.
func (e *Exporter) sendBatch(g *grouper, b *batch, failing *bool) {
	n, size := uint64(len(b.spans)), uint64(0)
	rejected, err := 0, context.Cause(e.ctx)
	if err == nil {
		slow := time.AfterFunc(e.reach.slow, func() { signal(e.reach.doubt) })
		request := g.request(b, e.scope)
		rejected, err = e.upload(request, len(b.spans))
		size = uint64(len(request))
		slow.Stop()
	}
	switch {
	case err == nil:
		signal(e.reach.sent)
		e.sentSpans.Add(n - uint64(rejected))
		e.sentBytes.Add(size)
		if rejected > 0 {
			e.loss.Lost(ReasonRejected, uint64(rejected))
		}
		if *failing {
			e.log.Info("exporting again")
		}
		*failing = false
	case e.ctx.Err() != nil:
		e.loss.Lost(ReasonShutdown, n)
	default:
		signal(e.reach.doubt)
		e.failedBatches.Add(1)
		e.loss.Lost(ReasonExportFailed, n)
		if !*failing {
			e.log.Error("cannot export spans; more such failures will only be counted", "spans", n, "error", err)
		}
		*failing = true
	}
}

// upload tries until the receiver answers, refuses, or Retry.For is over. The
// clients retry by themselves what may succeed later, but over gRPC the timeout
// of one request (OTEL_EXPORTER_OTLP_TIMEOUT) bounds all its retries.
func (e *Exporter) upload(request []byte, spans int) (rejected int, err error) {
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.cfg.Retry.For, errGaveUp)
	defer cancel()
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = e.cfg.Retry.Initial, e.cfg.Retry.Max
	delays.Reset()
	for {
		rejected, err = e.client.Export(ctx, request, spans)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return rejected, err
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		}
	}
}
