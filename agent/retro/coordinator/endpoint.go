package coordinator

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/span/keep"
)

const (
	maxQueue    = 4096             // keeps for an endpoint
	maxQueued   = 30 * time.Second // later nobody has the spans any more
	sendTimeout = 5 * time.Second  // and what a waiting request takes longer than its wait
	lastTimeout = time.Second      // when the agent ends
	gather      = 50 * time.Millisecond
	// between two requests that an answer did not wait for: a server that answers at once is no coordinator
	idle                    = time.Second
	firstPause, longestWait = 100 * time.Millisecond, 5 * time.Second
)

// endpoint is one coordinator. Keeps are sent by requests of their own, so that they do not wait for the request that
// waits for keeps of others.
type endpoint struct {
	client *Client
	url    string
	up     atomic.Bool

	mu    sync.Mutex
	keeps []queued
	wake  chan struct{} // capacity 1: there are keeps
}

type queued struct {
	keep.Keep
	at time.Time
}

// queue returns false if there is no room.
func (e *endpoint) queue(k queued) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.keeps) >= maxQueue {
		return false
	}
	e.keeps = append(e.keeps, k)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return true
}

// next is what the next request sends. It stays queued until it is done.
func (e *endpoint) next() []keep.Keep {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := 0
	for old < len(e.keeps) && time.Since(e.keeps[old].at) > maxQueued {
		old++
	}
	e.keeps = e.keeps[old:]
	e.client.dropped.Add(uint64(old))
	var keeps []keep.Keep
	size := 1 << 10
	for _, k := range e.keeps[:min(len(e.keeps), keep.MaxKeeps)] {
		size += 160 + 6*len(k.Service) // JSON escapes some bytes as six
		if size > keep.MaxBody {
			break
		}
		keeps = append(keeps, k.Keep)
	}
	return keeps
}

// done removes the first keeps of the queue.
func (e *endpoint) done(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keeps = e.keeps[n:]
}

// send sends what is queued until ctx ends.
func (e *endpoint) send(ctx context.Context) {
	var pause backoff
	for {
		select {
		case <-e.wake:
		case <-ctx.Done():
		}
		for keeps := e.next(); len(keeps) > 0 && ctx.Err() == nil; keeps = e.next() {
			if e.transmit(ctx, sendTimeout, keeps) {
				pause = 0
				sleep(ctx, gather)
			} else {
				sleep(ctx, pause.next())
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	for keeps := e.next(); len(keeps) > 0; keeps = e.next() {
		if !e.transmit(last, lastTimeout, keeps) {
			e.client.dropped.Add(uint64(len(keeps)))
			e.done(len(keeps))
		}
	}
}

// transmit sends keeps. It returns false if they are to be sent again.
func (e *endpoint) transmit(ctx context.Context, timeout time.Duration, keeps []keep.Keep) bool {
	answer, err := e.client.post(ctx, e.url, timeout, keep.Request{Keeps: keeps})
	var refused *statusError
	switch {
	case err == nil:
		e.client.sent.Add(uint64(len(keeps)))
		e.client.limited.Add(uint64(min(max(answer.Limited, 0), len(keeps))))
	case errors.As(err, &refused) && (refused.status == http.StatusBadRequest || refused.status == http.StatusRequestEntityTooLarge):
		e.client.dropped.Add(uint64(len(keeps))) // it would be refused again
		e.client.options.Log.Warn("a coordinator of retroactive sampling refuses keeps", "endpoint", e.url, "keeps", len(keeps), "error", err)
	default:
		return false
	}
	e.done(len(keeps))
	return true
}

// receive asks for what others keep until ctx ends.
func (e *endpoint) receive(ctx context.Context) {
	var (
		after keep.Position
		pause backoff
		asked bool
	)
	for ctx.Err() == nil {
		begun, wait := time.Now(), keep.MaxWait
		if !e.up.Load() {
			wait = 0 // to know that it is there
		}
		answer, err := e.client.post(ctx, e.url, wait+sendTimeout, keep.Request{After: &after, Wait: int(wait.Milliseconds())})
		if err == nil && answer.After.Epoch == 0 {
			err = errors.New("the answer is not a coordinator's: it has no epoch")
		}
		if ctx.Err() != nil {
			break
		}
		if changed := e.up.Swap(err == nil) != (err == nil); changed || !asked {
			e.report(err)
		}
		asked = true
		if err != nil {
			sleep(ctx, pause.next())
			continue
		}
		pause, after = 0, answer.After
		if n := len(answer.Keeps); n > 0 {
			e.client.received.Add(uint64(n))
			e.client.options.Kept(answer.Keeps)
		}
		least := gather
		if len(answer.Keeps) == 0 && wait > 0 {
			least = idle
		}
		sleep(ctx, least-time.Since(begun))
	}
	e.up.Store(false)
}

// report logs a change.
func (e *endpoint) report(err error) {
	if err == nil {
		e.client.options.Log.Info("connected to a coordinator of retroactive sampling", "endpoint", e.url)
		return
	}
	e.client.options.Log.Warn("a coordinator of retroactive sampling is unreachable: traces that this agent keeps may lack the spans of other agents",
		"endpoint", e.url, "error", err)
}

// backoff is the pause after a failure; 0: there was none.
type backoff time.Duration

// next doubles the pause, and returns one of at least half of it.
func (b *backoff) next() time.Duration {
	*b = min(max(2*(*b), backoff(firstPause)), backoff(longestWait))
	return time.Duration(*b)/2 + rand.N(time.Duration(*b)/2)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
