package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrShut is the error of an export that comes after Shutdown, or that
// Shutdown had to end.
var ErrShut = errors.New("the exporter is shut down")

// Gate counts the exports under way. Make it with [New].
type Gate struct {
	base context.Context // ended when the exports under way are cancelled
	end  context.CancelCauseFunc

	mu     sync.Mutex
	inside int
	shut   bool
	empty  chan struct{} // closed when shut and nobody is inside
}

// New returns an open gate.
func New() *Gate {
	g := &Gate{empty: make(chan struct{})}
	g.base, g.end = context.WithCancelCause(context.Background())
	return g
}

// Enter lets an export pass. The context that it returns ends with ctx (same
// deadline, same cause) and when Shutdown's context ends. It leaves ctx's
// values behind: a span or an httptrace hook in it belongs to the request that
// happened to cause the flush, and an export must not be traced. Call leave
// when the export is over.
func (g *Gate) Enter(ctx context.Context) (run context.Context, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, nil, ErrShut
	}
	g.inside++
	run, cancel := context.WithCancelCause(g.base)
	release := func() {}
	if deadline, ok := ctx.Deadline(); ok {
		// A deadline and not only its end: gRPC tells it to the server, and
		// a retry sees that it cannot make it.
		run, release = context.WithDeadline(run, deadline)
	}
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return run, func() {
		detach()
		release()
		cancel(nil)
		g.leave()
	}, nil
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.shut && g.inside == 0 {
		close(g.empty)
	}
}

// Shut closes the gate and waits for the exports inside. When ctx ends first,
// they are ended with [ErrShut], awaited, and ctx's error is returned. Only the
// first call does anything; first tells.
func (g *Gate) Shut(ctx context.Context) (first bool, err error) {
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		return false, nil
	}
	g.shut = true
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()

	select {
	case <-g.empty:
	default:
		select {
		case <-g.empty:
		case <-ctx.Done():
			err = context.Cause(ctx)
			g.end(ErrShut)
			<-g.empty
		}
	}
	g.end(ErrShut)
	return true, err
}
