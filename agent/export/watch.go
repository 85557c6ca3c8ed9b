package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	probeTimeout = 5 * time.Second // of one question
	longestPause = 5 * time.Minute // between two questions to a receiver that does not answer
)

// probe is a request without spans, which every OTLP receiver must accept.
var probe = []byte{0x0a, 0x00}

// reach is what is known of the receiver.
type reach struct {
	doubt chan struct{} // capacity 1: look again
	sent  chan struct{} // capacity 1: it took a batch

	asking func(context.Context) error // by a request without spans
	first  time.Duration               // pause after the first question in vain; then it doubles
	slow   time.Duration               // how long a batch takes at most without a doubt

	mu    sync.Mutex
	asked bool
	err   error // of the last question, nil if it answered
	since time.Time
}

func newReach(cfg Config) *reach {
	return &reach{
		doubt: make(chan struct{}, 1), sent: make(chan struct{}, 1),
		asking: func(ctx context.Context) error { return ask(ctx, cfg) }, first: 5 * time.Second, slow: time.Second,
	}
}

// Endpoint is where spans are sent to.
func (e *Exporter) Endpoint() string { return e.client.Endpoint() }

// Reachable says how the receiver answered when it was asked last: nil, or why
// spans do not arrive and since when. Before the first answer it is nil.
func (e *Exporter) Reachable() error {
	e.reach.mu.Lock()
	defer e.reach.mu.Unlock()
	if e.reach.err == nil {
		return nil
	}
	return fmt.Errorf("%s does not accept spans since %s: %w", e.Endpoint(), e.reach.since.UTC().Format(time.RFC3339), e.reach.err)
}

// Watch asks the receiver, by a request without spans, whether it answers: at once, and
// whenever a batch takes long or fails. The log tells the answer; as long as there is none, it
// tells so at widening intervals. Watch returns when ctx ends.
func (e *Exporter) Watch(ctx context.Context) {
	pause := e.reach.first
	for err := e.reach.asking(ctx); ctx.Err() == nil; {
		forget(e.reach.doubt)
		forget(e.reach.sent)
		// A batch that it takes is an answer too, and a doubt of one that does not answer is none.
		doubt, sent := e.reach.doubt, e.reach.sent
		var again <-chan time.Time
		if changed := e.reach.answered(err); err == nil {
			if changed {
				e.log.Info("spans are exported; the receiver answers", "endpoint", e.Endpoint(), "protocol", e.cfg.Protocol)
			}
			pause, sent = e.reach.first, nil
		} else {
			e.log.Warn("the receiver does not accept spans; they are queued, and dropped and counted when the queue is full",
				"endpoint", e.Endpoint(), "protocol", e.cfg.Protocol, "asked_again_in", pause, "error", err)
			again, doubt = time.After(pause), nil
			pause = min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
		case <-sent:
			err = nil
		case <-doubt:
			err = e.reach.asking(ctx)
		case <-again:
			err = e.reach.asking(ctx)
		}
	}
}

// answered notes an answer, and says whether it differs from the last one.
func (r *reach) answered(err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = !r.asked || (err == nil) != (r.err == nil)
	if changed {
		r.since = time.Now()
	}
	r.asked, r.err = true, err
	return changed
}

// ask sends a request without spans, once, over a connection of its own: that of the batches
// may be busy with one that is tried again and again.
func ask(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("no answer"))
	defer cancel()
	c, err := newClient(cfg, false)
	if err != nil {
		return err
	}
	defer func() { _ = c.Shutdown(context.WithoutCancel(ctx)) }()
	_, err = c.Export(ctx, probe, 0)
	return err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func forget(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}
