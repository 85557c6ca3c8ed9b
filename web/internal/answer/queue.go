package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"

	"github.com/tare-trace/tare/store"
)

// What queries have. What is received goes before them: with Go's memory limit reached, the
// collector refuses spans.
const (
	share     = 4         // large queries have a quarter of Go's memory limit together
	unlimited = 512 << 20 // bytes, without one
	// small is the memory, in bytes, that a query in the small lane may take.
	small = 8 << 20
	// factor is how much memory a query takes for each byte of a trace, and of what the store
	// counts beside it for each span, with what is made of it; TestHeavyTracesWaitForEachOther
	// measures it.
	factor = 6
	// leastPart is the part of that memory, in bytes of spans, that a query reads in any case.
	leastPart = 64
	// pressed is the part of the memory limit that may be in use when a query begins.
	pressed = 0.75

	smallAtOnce = 12 // queries that run at once in each lane
	largeAtOnce = 4
	waiting     = 64   // queries of one client that wait at once
	allWaiting  = 1024 // of all clients

	look = 100 * time.Millisecond // between looks at the memory of the process, while it is short
	tidy = 2 * time.Second        // between two garbage collections that waiting queries cause
)

// lane is one of the two that queries run in. Every query begins in the first; it goes over
// to the second when it is about to take more memory than each may. So large queries, which
// wait for memory, never keep small ones waiting.
type lane int

const (
	smallLane lane = iota
	largeLane
	lanes
)

// Queue decides when queries run. Each client has a queue of its own in each lane: the next
// to run is of the client of whom the fewest run, and of several the one who had his turn
// longest ago. No client has all of a lane, so that another always finds a place.
type Queue struct {
	// Client names who sends a request.
	Client func(*http.Request) string
	// Refused, unless nil, is called for each query that is refused, with its status.
	Refused func(r *http.Request, status int, text string)

	most    [lanes]int // queries at once
	each    [lanes]int // of one client
	limit   int64      // bytes of all queries in the large lane
	live    func() (used, limit int64)
	collect func() // garbage

	mu      sync.Mutex
	runs    [lanes]int
	held    int64 // bytes
	clients map[string]*asker
	waits   int
	turn    uint64
	tidied  time.Time
}

type asker struct {
	runs  [lanes]int
	held  int64
	waits [lanes][]*waiter
	turn  uint64 // when one of its queries was last let in
}

type waiter struct {
	need int64
	in   chan struct{} // closed when it may run
}

// NewQueue takes the memory of large queries from Go's memory limit.
func NewQueue(client func(*http.Request) string) *Queue {
	limit := int64(unlimited)
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		limit = n / share
	}
	return &Queue{
		Client: client,
		most:   [lanes]int{smallAtOnce, largeAtOnce}, each: [lanes]int{smallAtOnce * 2 / 3, largeAtOnce - 1},
		limit: limit, live: live, collect: runtime.GC, clients: map[string]*asker{},
	}
}

// live is the heap that was in use at the last garbage collection, and Go's memory limit.
func live() (used, limit int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()), debug.SetMemoryLimit(-1) //nolint:gosec // an amount of memory
}

// Limit gives each query of next a deadline, and lets it run when it is its turn. A query waits within its deadline, and
// ends with the client's connection. refuse answers one that does not run, with status 429 or 503.
func (q *Queue) Limit(next http.Handler, timeout time.Duration, refuse func(w http.ResponseWriter, status int, text string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		p := &place{queue: q, client: q.Client(r)}
		err := p.enter(ctx, smallLane, 0)
		if err == nil {
			defer p.leave()
			next.ServeHTTP(w, r.WithContext(store.WithAsk(ctx, p.ask)))
			err = p.refused
		} else {
			status, text := Status(err)
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			refuse(w, status, text)
		}
		if err != nil && q.Refused != nil {
			status, text := Status(err)
			q.Refused(r, status, text)
		}
	})
}

// retryAfter is for clients that are refused, in seconds: most queries take less.
const retryAfter = 5

var (
	errBusy = &Error{http.StatusServiceUnavailable, "too many queries at once, or memory is short, and what is received goes before queries: try again later, or ask for less"}
	errMany = &Error{http.StatusTooManyRequests, fmt.Sprintf("%d of your queries wait already: send the next when some are answered", waiting)}
)

// place is one query's place in the queue. It is used by one goroutine at a time.
type place struct {
	queue   *Queue
	client  string
	lane    lane
	held    int64
	in      bool
	refused error // of ask
}

// ask is [store.WithAsk]'s: it moves the query to the large lane if it needs that.
func (p *place) ask(ctx context.Context, spans, beside int64) (int64, error) {
	if spans*factor+beside <= small {
		return spans, nil
	}
	// What is beside the spans cannot be cut: if it alone is too much, it is read while no other large query runs.
	most := p.queue.limit
	spans = min(spans, max((most-beside)/factor, most/leastPart))
	// What the query had was for what it has done with. So no query that waits keeps memory from others.
	p.leave()
	p.refused = p.enter(ctx, largeLane, min(spans*factor+beside, most))
	return spans, p.refused
}

// enter waits until the query may run in the lane with so much memory.
func (p *place) enter(ctx context.Context, l lane, need int64) error {
	q := p.queue
	q.mu.Lock()
	c := q.clients[p.client]
	if c == nil {
		c = &asker{}
		q.clients[p.client] = c
	}
	switch {
	case len(c.waits[smallLane])+len(c.waits[largeLane]) >= waiting:
		q.mu.Unlock()
		return errMany
	case q.waits >= allWaiting:
		q.forget(p.client)
		q.mu.Unlock()
		return errBusy
	}
	w := &waiter{need: need, in: make(chan struct{})}
	c.waits[l] = append(c.waits[l], w)
	q.waits++
	q.dispatch()
	q.mu.Unlock()
	p.lane, p.held = l, need
	for {
		select {
		case <-w.in:
			p.in = true
			return nil
		case <-ctx.Done():
			q.mu.Lock()
			select {
			case <-w.in: // at the same time
				q.give(p)
			default:
				c.waits[l] = without(c.waits[l], w)
				q.waits--
				q.forget(p.client)
			}
			q.dispatch()
			q.mu.Unlock()
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return errBusy
		case <-time.After(look):
			q.mu.Lock()
			q.dispatch()
			collect := q.short() && time.Since(q.tidied) > tidy
			if collect {
				q.tidied = time.Now()
			}
			q.mu.Unlock()
			if collect { // else an idle process would count garbage as in use for two minutes
				q.collect()
			}
		}
	}
}

func (p *place) leave() {
	if !p.in {
		return
	}
	p.in = false
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.give(p)
	p.queue.dispatch()
}

// give takes back what a query had.
func (q *Queue) give(p *place) {
	c := q.clients[p.client]
	q.runs[p.lane]--
	c.runs[p.lane]--
	q.held -= p.held
	c.held -= p.held
	q.forget(p.client)
}

// forget removes a client without queries.
func (q *Queue) forget(name string) {
	if c := q.clients[name]; c.runs == [lanes]int{} && len(c.waits[smallLane])+len(c.waits[largeLane]) == 0 {
		delete(q.clients, name)
	}
}

// short reports whether the process has too little memory for more than one query of each kind at once.
func (q *Queue) short() bool {
	used, limit := q.live()
	return float64(used) > pressed*float64(limit)
}

// dispatch lets in the queries that may run.
func (q *Queue) dispatch() {
	if q.waits == 0 {
		return
	}
	most := q.most
	if q.short() {
		// A small query takes little, and shows what is wrong.
		most = [lanes]int{smallLane: 1}
	}
	for l := range lanes {
		for q.runs[l] < most[l] {
			c := q.next(l)
			if c == nil {
				break
			}
			w := c.waits[l][0]
			if q.held+w.need > q.limit {
				break // what becomes free is kept for it
			}
			c.waits[l] = c.waits[l][1:]
			q.waits--
			q.turn++
			c.turn = q.turn
			q.runs[l]++
			c.runs[l]++
			q.held += w.need
			c.held += w.need
			close(w.in)
		}
	}
}

// next is the client of whom a query is let in next; nil if there is none.
func (q *Queue) next(l lane) *asker {
	var best *asker
	for _, c := range q.clients {
		if len(c.waits[l]) == 0 || c.runs[l] >= q.each[l] || c.held > 0 && c.held+c.waits[l][0].need > q.limit/2 {
			continue
		}
		if best == nil || c.runs[l] < best.runs[l] || c.runs[l] == best.runs[l] && c.turn < best.turn {
			best = c
		}
	}
	return best
}

func without(list []*waiter, w *waiter) []*waiter {
	for i := range list {
		if list[i] == w {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
