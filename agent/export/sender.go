package export

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
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
	n := uint64(len(b.spans))
	err := context.Cause(e.ctx)
	if err == nil {
		err = e.upload(g.messages(b, e.scope))
	}
	partial := findPartialSuccess(err)
	switch {
	case err == nil || partial != nil:
		rejected := partial.rejected(n)
		e.sentSpans.Add(n - rejected)
		if rejected > 0 {
			e.loss.Lost(ReasonRejected, rejected)
		}
		if partial != nil {
			e.log.Warn("the receiver took a batch with a remark", "spans", n, "rejected", rejected, "remark", partial.message)
		}
		if *failing {
			e.log.Info("exporting again")
		}
		*failing = false
	case e.ctx.Err() != nil:
		e.loss.Lost(ReasonShutdown, n)
	default:
		e.failedBatches.Add(1)
		e.loss.Lost(ReasonExportFailed, n)
		if !*failing {
			e.log.Error("cannot export spans; more such failures will only be counted", "spans", n, "error", err)
		}
		*failing = true
	}
}

// upload tries until the receiver answers, refuses, or Retry.For is over. The
// clients retry by themselves what the receiver asks to send again, but not
// everything that ends when the receiver comes back: over HTTP a refused
// connection is final to them, and over gRPC the timeout of one request
// (OTEL_EXPORTER_OTLP_TIMEOUT) spans all its retries.
func (e *Exporter) upload(rss []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.retry.For, errGaveUp)
	defer cancel()
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = e.retry.Initial, e.retry.Max
	delays.Reset()
	for {
		err := e.client.UploadTraces(ctx, rss)
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
