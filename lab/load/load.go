// Package load drives an HTTP/1.1 server with a closed loop: every connection
// sends its next request when the answer to the last one is there. It is lean,
// because it shares the machine with what it measures: one goroutine per
// connection, no allocation, one write and usually one read per request.
//
// Being closed, it finds the saturated throughput and the CPU per request; its
// latencies are those of a server that is never asked for more than it gives.
// It refuses to be an HTTP client: no TLS, no redirects, no pipelining, and it
// never sends one request number twice, so a failed request is not retried.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Options describe one run. Addr, Connections and AppendPath are required,
// and so is an end: Requests, Duration or both (what comes first).
type Options struct {
	Addr        string        // host:port, TCP
	Connections int           // requests in flight
	Requests    uint64        // how many to send; 0: until Duration
	Duration    time.Duration // how long to begin new requests; 0: until Requests
	First       uint64        // the number of the first request
	Close       bool          // one connection per request
	BodySize    int           // bytes of body to send with POST; 0: GET
	Timeout     time.Duration // of one request; 0: 10 s

	// AppendPath appends the path of request n to dst. It is called by many
	// goroutines.
	AppendPath func(dst []byte, n uint64) []byte

	// Check, if set, sees the body of every 2xx answer; an error makes the
	// request a failed one. body is only valid during the call. It is called
	// by many goroutines.
	Check func(n uint64, body []byte) error

	// Progress, if set, is called about every ProgressEvery (0: 500 ms), and
	// never by two goroutines at once.
	Progress      func(ok, failed uint64)
	ProgressEvery time.Duration
}

func (o *Options) validate() error {
	switch {
	case o.Addr == "":
		return errors.New("load: no address")
	case o.Connections < 1:
		return errors.New("load: need at least one connection")
	case o.AppendPath == nil:
		return errors.New("load: no AppendPath")
	case o.Requests == 0 && o.Duration == 0:
		return errors.New("load: need an end: Requests or Duration")
	case o.BodySize < 0:
		return errors.New("load: negative body size")
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.ProgressEvery == 0 {
		o.ProgressEvery = 500 * time.Millisecond
	}
	return nil
}

// Generator is a run under way.
type Generator struct {
	opts     Options
	next     atomic.Uint64 // requests that were begun
	stopping atomic.Bool   // begin no more requests
	workers  []*worker
	latency  *latencies
	started  time.Time
	finished chan struct{}
	result   Result
	err      error
}

// Start begins a run. When ctx ends, requests in flight are aborted and not
// counted; when Duration or Requests ends it, they are waited for.
func Start(ctx context.Context, opts Options) (*Generator, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	g := &Generator{
		opts:     opts,
		latency:  newLatencies(),
		started:  time.Now(),
		finished: make(chan struct{}),
	}
	for i := range opts.Connections {
		g.workers = append(g.workers, newWorker(g, i))
	}
	go g.run(ctx)
	return g, nil
}

// Run is Start and Wait.
func Run(ctx context.Context, opts Options) (Result, error) {
	g, err := Start(ctx, opts)
	if err != nil {
		return Result{}, err
	}
	return g.Wait()
}

// Done tells how many requests were answered well and how many failed so far.
func (g *Generator) Done() (ok, failed uint64) {
	for _, w := range g.workers {
		ok += w.ok.Load()
		failed += w.failed.Load()
	}
	return ok, failed
}

// Stop begins no more requests; Wait then returns soon.
func (g *Generator) Stop() { g.stopping.Store(true) }

// Wait returns the result when the run is over, with the context's error if
// that is what ended it. Failed requests are a result, not an error.
func (g *Generator) Wait() (Result, error) {
	<-g.finished
	return g.result, g.err
}

func (g *Generator) run(ctx context.Context) {
	defer close(g.finished)
	var workers, watcher sync.WaitGroup
	for _, w := range g.workers {
		workers.Add(1)
		go func() {
			defer workers.Done()
			w.loop()
		}()
	}
	over := make(chan struct{})
	watcher.Add(1)
	go func() {
		defer watcher.Done()
		g.watch(ctx, over)
	}()
	workers.Wait()
	elapsed := time.Since(g.started)
	close(over)
	watcher.Wait()
	g.result = g.collect(elapsed)
	g.err = ctx.Err()
	if g.opts.Progress != nil {
		g.opts.Progress(g.result.OK, g.result.Failed)
	}
}

// watch ends the run by time or context, times requests out and reports
// progress. One goroutine with one ticker does it for all connections: a
// deadline set per request would cost each of them a timer.
func (g *Generator) watch(ctx context.Context, over <-chan struct{}) {
	check := time.NewTicker(min(g.opts.Timeout/4, 250*time.Millisecond))
	defer check.Stop()
	progress := time.NewTicker(g.opts.ProgressEvery)
	defer progress.Stop()
	var end <-chan time.Time
	if g.opts.Duration > 0 {
		timer := time.NewTimer(g.opts.Duration)
		defer timer.Stop()
		end = timer.C
	}
	cancelled := ctx.Done()
	for {
		select {
		case <-over:
			return
		case <-cancelled:
			cancelled = nil
			g.stopping.Store(true)
			for _, w := range g.workers {
				w.abort()
			}
		case <-end:
			g.stopping.Store(true)
		case now := <-check.C:
			for _, w := range g.workers {
				w.expire(now, g.opts.Timeout)
			}
		case <-progress.C:
			if g.opts.Progress != nil {
				g.opts.Progress(g.Done())
			}
		}
	}
}
