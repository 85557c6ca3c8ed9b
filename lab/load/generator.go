package load

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Generator is a run under way.
type Generator struct {
	opts     Options
	schedule schedule
	started  time.Time
	next     atomic.Uint64 // requests that were begun; see begun
	end      atomic.Int64  // begin no requests from then on, ns since started
	aborted  atomic.Bool   // drop what is in flight
	loops    []*loop
	finished chan struct{}
	result   Result // of the whole run; both once finished is closed
	err      error

	mu    sync.Mutex // guards what is below
	over  bool       // the loops are gone
	last  cut        // where the interval under way began
	final cut        // where the run ended, once it is over
	total *tally     // of the intervals before that; nil: there were none
}

// maxLoops bounds the threads of a closed loop: what needs more than about
// 300,000 requests/s should have more machines for it.
const maxLoops = 4

// Start begins a run. When ctx ends, requests in flight are aborted and not
// counted; when Duration or Requests ends it, they are waited for. It fails if
// the options do, if the name in Addr is unknown, or for want of descriptors.
func Start(ctx context.Context, opts Options) (*Generator, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	addresses, err := resolve(ctx, opts.Addr)
	if err != nil {
		return nil, err
	}
	g := &Generator{
		opts:     opts,
		schedule: schedule{opts.Rate, opts.Requests},
		finished: make(chan struct{}),
	}
	g.end.Store(math.MaxInt64)
	if opts.Duration > 0 {
		g.end.Store(int64(opts.Duration))
	}
	// A schedule has one owner. Of the CPUs, half are left for the service.
	loops := 1
	if opts.Rate == 0 {
		loops = max(1, min(opts.Connections, runtime.GOMAXPROCS(0)/2, maxLoops))
	}
	for i := range loops {
		l, err := newLoop(g, addresses, (opts.Connections+loops-1-i)/loops)
		if err != nil {
			for _, l := range g.loops {
				l.poll.close()
			}
			return nil, err
		}
		g.loops = append(g.loops, l)
	}
	g.started = time.Now()
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
	for _, l := range g.loops {
		ok += l.ok.Load()
		failed += l.failed.Load()
	}
	return ok, failed
}

// Stop begins no more requests; Wait then returns soon.
func (g *Generator) Stop() { g.stop(false) }

func (g *Generator) stop(abort bool) {
	g.mu.Lock() // so that no Mark has counted requests as due that are not any more
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.end.Store(min(g.end.Load(), int64(g.clock())))
	if abort {
		g.aborted.Store(true)
	}
	for _, l := range g.loops {
		l.poll.wake()
	}
}

// Wait returns the result of the whole run when it is over, whether Mark was
// called or not, with the context's error if that is what ended it. Failed
// requests are a result, not an error.
func (g *Generator) Wait() (Result, error) {
	<-g.finished
	return g.result, g.err
}

// clock is the time since the start.
func (g *Generator) clock() time.Duration { return time.Since(g.started) }

// begun is how many requests were begun. The counter may be beyond
// Options.Requests: each loop increments it once more before it ends.
func (g *Generator) begun() uint64 {
	n := g.next.Load()
	if g.opts.Requests > 0 {
		n = min(n, g.opts.Requests)
	}
	return n
}

func (g *Generator) run(ctx context.Context) {
	defer close(g.finished)
	var loops, watcher sync.WaitGroup
	for _, l := range g.loops {
		loops.Go(l.run)
	}
	over := make(chan struct{})
	watcher.Go(func() { g.watch(ctx, over) })
	loops.Wait()
	close(over)
	watcher.Wait()
	g.result = g.finish()
	g.err = ctx.Err()
	if g.opts.Progress != nil {
		g.opts.Progress(g.result.OK, g.result.Failed)
	}
}

// watch ends the run with the context and reports progress.
func (g *Generator) watch(ctx context.Context, over <-chan struct{}) {
	progress := time.NewTicker(g.opts.ProgressEvery)
	defer progress.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-over:
			return
		case <-cancelled:
			cancelled = nil
			g.stop(true)
		case <-progress.C:
			if g.opts.Progress != nil {
				g.opts.Progress(g.Done())
			}
		}
	}
}
