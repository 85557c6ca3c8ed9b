package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dialPause keeps a worker from spinning on an address that refuses.
const dialPause = 10 * time.Millisecond

// worker owns one connection at a time.
type worker struct {
	g     *Generator
	index int

	ok, failed atomic.Uint64 // written by the worker, read by anyone
	began      atomic.Int64  // of the request in flight, ns since g.started; 0: none

	mu      sync.Mutex // guards conn and dialing against abort and expire
	conn    *conn
	cancel  context.CancelFunc // of a dial under way
	stopped bool               // abort was called

	req     []byte
	tail    []byte // the part of a request after the path: always the same
	resp    *responseReader
	errors  map[string]uint64
	aborted uint64
	dials   uint64
}

func newWorker(g *Generator, index int) *worker {
	w := &worker{
		g:      g,
		index:  index,
		resp:   newResponseReader(g.opts.Check != nil),
		errors: map[string]uint64{},
	}
	w.tail = append(w.tail, " HTTP/1.1\r\nHost: "+g.opts.Addr+"\r\nUser-Agent: tare-load\r\n"...)
	if g.opts.Close {
		w.tail = append(w.tail, "Connection: close\r\n"...)
	}
	if g.opts.BodySize > 0 {
		w.tail = append(w.tail, "Content-Type: application/octet-stream\r\nContent-Length: "...)
		w.tail = strconv.AppendInt(w.tail, int64(g.opts.BodySize), 10)
		w.tail = append(w.tail, "\r\n"...)
	}
	w.tail = append(w.tail, "\r\n"...)
	for i := range g.opts.BodySize {
		w.tail = append(w.tail, 'a'+byte(i%26))
	}
	return w
}

func (w *worker) loop() {
	defer w.hangUp()
	for !w.g.stopping.Load() {
		n := w.g.next.Add(1)
		if w.g.opts.Requests > 0 && n > w.g.opts.Requests {
			return
		}
		w.request(w.g.opts.First + n - 1)
	}
}

func (w *worker) request(n uint64) {
	begin := time.Since(w.g.started)
	w.began.Store(int64(begin) | 1) // never 0
	h, err := w.exchange(n)
	latency := time.Since(w.g.started) - begin
	switch {
	case err == nil:
		w.g.latency.record(w.index, latency)
		w.ok.Add(1)
		if h.close || w.g.opts.Close {
			w.awaitEOF()
			w.hangUp()
		}
	case w.isAborted():
		w.aborted++
	default:
		w.hangUp()
		w.failed.Add(1)
		w.count(reason(err))
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			time.Sleep(dialPause)
		}
	}
	w.began.Store(0)
}

func (w *worker) exchange(n uint64) (head, error) {
	if w.conn == nil {
		if err := w.dial(); err != nil {
			return head{}, err
		}
	}
	method := "GET "
	if w.g.opts.BodySize > 0 {
		method = "POST "
	}
	w.req = append(w.req[:0], method...)
	w.req = w.g.opts.AppendPath(w.req, n)
	w.req = append(w.req, w.tail...)
	if err := w.conn.send(w.req); err != nil {
		return head{}, err
	}
	h, body, err := w.resp.next()
	if err != nil {
		return h, err
	}
	if h.status/100 != 2 {
		return h, statusError(h.status)
	}
	if w.resp.r != w.resp.w {
		return h, errors.New("bytes after the response")
	}
	if w.g.opts.Check != nil {
		return h, w.g.opts.Check(n, body)
	}
	return h, nil
}

func (w *worker) dial() error {
	ctx, cancel := context.WithTimeout(context.Background(), w.g.opts.Timeout)
	defer cancel()
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return context.Canceled
	}
	w.cancel = cancel
	w.mu.Unlock()
	w.dials++
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", w.g.opts.Addr)
	if err != nil {
		return err
	}
	k, err := newConn(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	w.resp.reset(k)
	w.mu.Lock()
	w.conn, w.cancel = k, nil
	if w.stopped {
		_ = k.SetDeadline(time.Unix(1, 0))
	}
	w.mu.Unlock()
	return nil
}

// awaitEOF lets the server close first, as it said it would: the side that
// closes first keeps the port for a minute, and here ports are few.
func (w *worker) awaitEOF() {
	var b [1]byte
	_, _ = w.conn.Read(b[:])
}

func (w *worker) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = w.conn.Close() // nothing is buffered: there is nothing to lose
		w.conn = nil
	}
}

// abort ends what is in flight, now and from now on.
func (w *worker) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.cancel != nil {
		w.cancel()
	}
	if w.conn != nil {
		_ = w.conn.SetDeadline(time.Unix(1, 0))
	}
}

func (w *worker) isAborted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// expire ends a request that is older than the timeout. (A dial has its own.)
func (w *worker) expire(now time.Time, timeout time.Duration) {
	began := w.began.Load()
	if began == 0 || now.Sub(w.g.started)-time.Duration(began) < timeout {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Again, now that no other connection can take this one's place.
	if w.conn != nil && w.began.Load() == began {
		_ = w.conn.SetDeadline(time.Unix(1, 0))
	}
}

func (w *worker) count(reason string) {
	if _, known := w.errors[reason]; !known && len(w.errors) >= MaxReasons {
		reason = "other"
	}
	w.errors[reason]++
}

type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// reason is an error without what differs from request to request, such as
// port numbers.
func reason(err error) string {
	var op *net.OpError
	prefix := ""
	if errors.As(err, &op) && op.Op == "dial" {
		prefix = "dial: "
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return prefix + "timeout"
	case errors.As(err, &errno):
		return prefix + errno.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed within the response"
	}
	return prefix + err.Error()
}
