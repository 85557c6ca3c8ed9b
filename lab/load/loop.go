package load

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// loop owns connections and the schedule, on one thread: it sleeps in the kernel
// until a socket is ready or a request is due, and does then what is to be done.
// Nothing in it waits for another goroutine.
//
// What was compared with it, for lag and CPU time per request on two CPUs that
// the service shares:
//   - a goroutine for each connection that sleeps itself by Go's timers: they are
//     late by up to a millisecond, which is epoll_wait's unit, and so bunch the
//     requests, which also makes it the cheapest;
//   - the same with nanosleep: on time, but a thread for each connection;
//   - one pacer on a locked thread that hands due requests to goroutines: on time
//     itself, and then the request waits for Go's scheduler to find a thread: the
//     p99 of the lag is several times the loop's, at the same CPU time.
//
// The loop's lag is what the kernel needs to wake a thread, and its CPU time that
// of two wake-ups, for the time and for the answer, and three system calls. Only
// spinning would be more punctual, for the price of a CPU. In a closed loop it
// is as cheap as a goroutine for each connection, and fairer between them.
//
// All times are since Generator.started.
type loop struct {
	g         *Generator
	poll      *poller
	thread    thread
	addresses []unix.Sockaddr
	conns     []*conn
	tail      []byte // of every request; see requestTail
	req       []byte // the request that is being made
	body      []byte // its body, where each has its own

	free     ring // idle connections, first in, first out: all take their turns
	paused   ring // refused ones of a closed loop, for dialPause
	inFlight int  // connections that are neither free nor paused
	ended    bool // no request will be begun any more
	busy     bool // begin is on the stack
	woken    time.Duration
	expiry   time.Duration // when to look for timeouts next

	ok, failed atomic.Uint64 // of the whole run

	mu        sync.Mutex // guards what is below against Mark
	tally     *tally
	allBusy   bool
	busySince time.Duration // when the last free connection was taken
}

// dialPause keeps a closed loop from spinning on an address that refuses.
const dialPause = 10 * time.Millisecond

// maxBatch is how many events are taken at once. While they are worked off, what
// is due waits no longer than one event takes: begin looks after each.
const maxBatch = 256

func newLoop(g *Generator, addresses []unix.Sockaddr, conns int) (*loop, error) {
	p, err := newPoller(min(conns+1, maxBatch))
	if err != nil {
		return nil, err
	}
	l := &loop{
		g:         g,
		poll:      p,
		addresses: addresses,
		tail:      requestTail(&g.opts),
		tally:     newTally(),
		free:      newRing(conns),
		paused:    newRing(conns),
	}
	for i := range conns {
		c := newConn(l, i)
		l.conns = append(l.conns, c)
		l.free.push(c)
	}
	return l, nil
}

// run is the loop, to the end of the run.
func (l *loop) run() {
	// A thread of its own makes a sleep end on time: the kernel wakes the
	// thread, and no scheduler has to find one. The kernel may add up to the
	// thread's slack, 50 µs by default, to any sleep; 1 ns is the least.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l.thread.begin()
	defer l.thread.end()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)   // if refused, Lag tells
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) //nolint:errcheck // as above; 0 is the thread's default
	l.expiry = l.g.clock() + l.expireEvery()
	l.begin()
	for !l.over() {
		l.turn()
	}
	for _, c := range l.conns {
		c.hangUp()
	}
	l.g.mu.Lock() // against stop
	l.poll.close()
	l.g.mu.Unlock()
}

func (l *loop) over() bool { return l.ended && l.inFlight == 0 }

// turn waits once and handles what came of it.
func (l *loop) turn() {
	events := l.poll.wait(l.timeout())
	l.woken = l.g.clock()
	for i := range events {
		if e := &events[i]; e.Fd != wakeUp {
			// Events of a descriptor that was closed since are void.
			if c := l.conns[e.Fd]; c.generation == e.Pad {
				c.onEvent(e.Events)
			}
		}
	}
	if l.g.aborted.Load() {
		l.abort()
	}
	for l.paused.len() > 0 && l.paused.first().freed <= l.woken {
		l.free.push(l.paused.pop())
	}
	if l.woken >= l.expiry {
		l.expire()
	}
	l.begin()
}

// timeout is how long there is nothing to do but to wait for sockets; -1: for ever.
func (l *loop) timeout() time.Duration {
	next := time.Duration(math.MaxInt64)
	if l.inFlight > 0 {
		next = l.expiry
	}
	if l.paused.len() > 0 {
		next = min(next, l.paused.first().freed)
	}
	if l.g.opts.Rate > 0 && !l.ended && l.free.len() > 0 {
		next = min(next, l.g.schedule.at(l.g.next.Load()))
	}
	if next == math.MaxInt64 {
		return -1
	}
	return max(0, next-l.g.clock())
}

// begin starts what is due, as far as there are free connections.
func (l *loop) begin() {
	if l.busy {
		return // what fails at once ends up here again
	}
	l.busy = true
	for !l.ended && l.free.len() > 0 {
		k, due, ok := l.claim(l.free.first())
		if !ok {
			break
		}
		l.start(l.free.pop(), k, due)
	}
	l.busy = false
}

// claim takes the next number for c, from 0. It ends the loop's work when there
// can be no more.
func (l *loop) claim(c *conn) (k uint64, due time.Duration, ok bool) {
	o, end := &l.g.opts, time.Duration(l.g.end.Load())
	if o.Rate == 0 {
		if l.g.clock() >= end {
			l.ended = true
			return 0, 0, false
		}
		k = l.g.next.Add(1) - 1
		l.ended = o.Requests > 0 && k >= o.Requests
		return k, 0, !l.ended
	}
	k = l.g.next.Load()
	due = l.g.schedule.at(k)
	// What was due before the end and had a connection is sent, though this
	// thread may be late; what had to wait for one beyond the end is not.
	if o.Requests > 0 && k >= o.Requests || due >= end || c.freed >= end {
		l.ended = true
		return 0, 0, false
	}
	if due > l.g.clock() {
		return 0, 0, false
	}
	l.g.next.Store(k + 1) // the only loop
	return k, due, true
}

// start sends request k on c.
func (l *loop) start(c *conn, k uint64, due time.Duration) {
	l.inFlight++
	l.mu.Lock()
	now := l.g.clock()
	record(l.tally.lag, now-max(due, c.freed))
	l.tally.begun++
	if l.free.len() == 0 {
		l.allBusy, l.busySince = true, now
	}
	l.mu.Unlock()
	c.number, c.began, c.origin = l.g.opts.First+k, now, now
	if l.g.opts.Rate > 0 {
		c.origin = due
	}
	c.send()
}

// release makes c free for the next request; at says since when.
func (l *loop) release(c *conn, at time.Duration) {
	c.state, c.freed = idle, at
	l.inFlight--
	if l.free.len() == 0 {
		l.mu.Lock()
		l.settle(l.g.clock())
		l.allBusy = false
		l.mu.Unlock()
	}
	l.free.push(c)
	l.begin()
}

// pause keeps c from being free for a while.
func (l *loop) pause(c *conn) {
	c.state, c.freed = idle, l.g.clock()+dialPause
	l.inFlight--
	l.paused.push(c)
}

// settle accounts, up to now, for the time in which a due request waited and all
// connections were busy. It is called with mu held.
func (l *loop) settle(now time.Duration) {
	g := l.g
	if !l.allBusy || g.opts.Rate == 0 {
		return
	}
	end := time.Duration(g.end.Load())
	next := g.next.Load()
	if due := g.schedule.at(next); due < end && (g.opts.Requests == 0 || next < g.opts.Requests) {
		l.tally.blocked += max(0, min(now, end)-max(l.busySince, due))
	}
	l.busySince = now
}

// answered counts a request that ended well; spent is the generator's own time
// since the last byte.
func (l *loop) answered(c *conn, spent time.Duration) {
	l.mu.Lock()
	at := l.g.clock() - spent
	record(l.tally.latency, at-c.origin)
	record(l.tally.sent, at-c.began)
	l.tally.ok++
	l.mu.Unlock()
	l.ok.Add(1)
}

func (l *loop) count(failed error) {
	l.mu.Lock()
	if failed == nil {
		l.tally.aborted++
	} else {
		l.tally.failed++
		l.tally.fail(reason(failed), 1)
	}
	l.mu.Unlock()
	if failed != nil {
		l.failed.Add(1)
	}
}

func (l *loop) expireEvery() time.Duration {
	return min(l.g.opts.Timeout/4, 250*time.Millisecond)
}

// expire ends requests that are older than the timeout. One look at all
// connections now and then is cheaper than a timer for each request.
func (l *loop) expire() {
	l.expiry = l.woken + l.expireEvery()
	for _, c := range l.conns {
		if c.state != idle && l.woken-c.began >= l.g.opts.Timeout {
			c.fail(errTimeout)
		}
	}
}

// abort drops what is in flight.
func (l *loop) abort() {
	l.ended = true
	for _, c := range l.conns {
		c.abort()
	}
}
