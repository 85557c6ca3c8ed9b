package lean

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
)

// worker is the goroutine that exports: it takes the queue's spans over, composes requests and
// hands them to the exporter, one after another.
type worker struct {
	queue    *queue
	keeper   *keeper // or nil
	exporter Exporter
	batch    Batch
	clock    *clock
	head     func(scope int) []byte // of a scope's ScopeSpans
	resource []byte                 // of ResourceSpans: the resource and its schema URL

	pending pending
	request []byte

	ctx    context.Context // of exports; ends when Shutdown's does
	cancel context.CancelFunc
	flush  chan chan error
	stop   chan context.Context
	done   chan struct{}
	err    error // of the end; read after done

	exported, rejected, failed, requests, abandoned atomic.Uint64

	reported   uint64 // drops
	lastReport time.Time
}

const (
	maxKeptRequest = 4 << 20 // a larger buffer is left to the garbage collector
	reportEvery    = 10 * time.Second
)

func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	delay := time.NewTimer(w.batch.ScheduleDelay)
	defer delay.Stop()
	anchor := time.NewTicker(anchorEvery)
	defer anchor.Stop()
	var age <-chan time.Time
	if w.keeper != nil {
		// So a local trace waits at most an eighth longer than maxAge.
		ticker := time.NewTicker(max(w.keeper.maxAge/8, time.Millisecond))
		defer ticker.Stop()
		age = ticker.C
	}
	for {
		select {
		case <-w.queue.wake:
			w.take(false)
			if w.enough() {
				delay.Reset(w.batch.ScheduleDelay)
				w.handle(w.export(false))
			}
		case <-delay.C:
			w.take(false)
			delay.Reset(w.batch.ScheduleDelay)
			w.handle(w.export(true))
		case reply := <-w.flush:
			w.take(false)
			delay.Reset(w.batch.ScheduleDelay)
			reply <- w.export(true)
		case <-anchor.C:
			w.clock.anchor()
		case <-age:
			w.keeper.sweep(w.clock.monotonic(), false)
		case ctx := <-w.stop:
			if w.keeper != nil {
				w.keeper.sweep(0, true)
			}
			w.take(true)
			err := w.export(true)
			w.report(true)
			w.err = errors.Join(err, w.exporter.Shutdown(ctx))
			return
		}
		w.report(false)
	}
}

func (w *worker) handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// take moves what waits in the shards into w.pending.
func (w *worker) take(last bool) {
	w.queue.take(last, func(scope int, c chunk) {
		for n := len(w.pending.scopes); n <= scope; n++ {
			w.pending.scopes = append(w.pending.scopes, scopePending{head: w.head(n)})
		}
		w.pending.add(scope, c)
	})
}

// enough tells whether a full request waits.
func (w *worker) enough() bool {
	return w.pending.spans >= w.batch.MaxExportBatchSize || int64(w.pending.bytes) >= w.queue.wakeBytes
}

// export sends what is pending: full requests, and with all the rest too.
func (w *worker) export(all bool) error {
	var errs []error
	for w.enough() || all && w.pending.spans > 0 {
		if err := w.ctx.Err(); err != nil {
			w.abandon()
			errs = append(errs, err)
			break
		}
		if err := w.send(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (w *worker) send() error {
	request, spans, size := w.pending.compose(w.request[:0], w.resource,
		w.batch.MaxExportBatchSize, w.batch.MaxExportBatchBytes, w.queue.keep)
	ctx := w.ctx
	if w.batch.ExportTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.batch.ExportTimeout, errors.New("lean: Batch.ExportTimeout is over"))
		defer cancel()
	}
	rejected, err := w.exporter.Export(ctx, request, spans)
	w.requests.Add(1)
	if err != nil {
		w.failed.Add(uint64(spans))
		err = fmt.Errorf("lean: %d spans were not exported: %w", spans, err)
	} else {
		rejected = min(max(rejected, 0), spans)
		w.rejected.Add(uint64(rejected))
		w.exported.Add(uint64(spans - rejected))
	}
	w.queue.release(spans, size)
	if w.request = request; cap(request) > maxKeptRequest {
		w.request = nil
	}
	return err
}

// abandon drops what cannot be sent any more.
func (w *worker) abandon() {
	w.abandoned.Add(uint64(w.pending.spans))
	w.queue.release(w.pending.spans, w.pending.bytes)
	w.pending = pending{}
}

// report logs how many spans were dropped since the last report, in one message.
func (w *worker) report(now bool) {
	d := w.queue.dropped()
	d.Shutdown += w.abandoned.Load()
	total := d.QueueFull + d.QueueBytes + d.Shutdown + d.Undecided
	if total == w.reported || !now && time.Since(w.lastReport) < reportEvery {
		return
	}
	otel.Handle(fmt.Errorf("lean: %d spans dropped since the last report (in all: queue full %d, queue's bytes full %d, "+
		"ended after or unsent at shutdown %d, undecided %d); a larger Batch.MaxQueueSize or MaxQueueBytes, a faster receiver or "+
		"a lower sampling rate help", total-w.reported, d.QueueFull, d.QueueBytes, d.Shutdown, d.Undecided))
	w.reported, w.lastReport = total, time.Now()
}
