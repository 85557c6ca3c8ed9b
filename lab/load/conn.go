package load

import (
	"errors"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one connection at a time, and the request on it. Its states:
//
//	idle ─▶ dialing ─▶ sending ─▶ receiving ─▶ idle
//	  └─ connected ───────▲           └─▶ closing ─▶ idle, not connected
//
// The socket is watched for edges (EPOLLET) of all kinds from its beginning to
// its end, so that a request costs one write, one read, and a share in a wait.
type conn struct {
	l          *loop
	index      int32
	generation int32 // of fd: so that events of an older one are recognised
	fd         int   // -1: not connected
	state      state
	address    int // which of the loop's is tried

	number uint64
	began  time.Duration // when the request was begun; the timeout counts from it
	origin time.Duration // what its latency counts from
	freed  time.Duration // since when it is idle; of a paused one, until when it is paused

	out     []byte        // still to be sent
	hup     bool          // the peer has closed
	checked time.Duration // how long Check took
	resp    *responseReader
}

type state uint8

const (
	idle state = iota
	dialing
	sending
	receiving
	closing // the answer is there; waiting for the end of the connection
)

// errAgain: nothing to read yet.
var errAgain = errors.New("nothing to read yet")

func newConn(l *loop, index int) *conn {
	c := &conn{l: l, index: int32(index), fd: -1, resp: newResponseReader(l.g.opts.Check != nil)}
	c.resp.reset(c)
	return c
}

// send begins the request.
func (c *conn) send() {
	if c.fd < 0 {
		c.address = 0
		c.dial()
		return
	}
	c.request()
}

// request makes the request and writes it; nearly always in one piece.
func (c *conn) request() {
	l := c.l
	method := "GET "
	if l.g.opts.BodySize > 0 || l.g.opts.AppendBody != nil {
		method = "POST "
	}
	l.req = append(l.req[:0], method...)
	l.req = l.g.opts.AppendPath(l.req, c.number)
	l.req = append(l.req, version...)
	if l.g.opts.AppendHeader != nil {
		l.req = l.g.opts.AppendHeader(l.req, c.number)
	}
	l.req = append(l.req, l.tail...)
	if l.g.opts.AppendBody != nil {
		l.body = l.g.opts.AppendBody(l.body[:0], c.number)
		l.req = strconv.AppendInt(l.req, int64(len(l.body)), 10)
		l.req = append(l.req, "\r\n\r\n"...)
		l.req = append(l.req, l.body...)
	}
	c.state = receiving
	n, err := c.write(l.req)
	switch {
	case err != nil:
		c.fail(err)
	case n < len(l.req):
		c.state = sending
		c.out = append(c.out[:0], l.req[n:]...)
	}
}

// write writes what the kernel takes now.
func (c *conn) write(p []byte) (int, error) {
	for done := 0; ; {
		n, err := unix.Write(c.fd, p[done:])
		switch err {
		case nil:
			if done += n; done < len(p) {
				continue // until EAGAIN, or there would be no edge
			}
			return done, nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return done, nil
		}
		return done, err
	}
}

// Read reads what is there, for resp.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(c.fd, p)
		switch err {
		case nil:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, errAgain
		}
		return 0, err
	}
}

func (c *conn) onEvent(events uint32) {
	if events&(unix.EPOLLHUP|unix.EPOLLRDHUP|unix.EPOLLERR) != 0 {
		c.hup = true // for good: there will be no further edge
	}
	const readable = unix.EPOLLIN | unix.EPOLLHUP | unix.EPOLLRDHUP | unix.EPOLLERR
	switch c.state {
	case idle:
		if events&readable != 0 {
			c.hangUp() // closed by the server, or bytes that nobody asked for
		}
	case dialing:
		c.dialed(events)
	case sending:
		n, err := c.write(c.out)
		if c.out = c.out[n:]; err != nil {
			c.fail(err)
		} else if len(c.out) == 0 {
			c.state = receiving
			c.receive() // the edge of an answer may have come and gone
		}
	case receiving:
		if events&readable != 0 {
			c.receive()
		}
	case closing:
		c.awaitEOF()
	}
}

func (c *conn) receive() {
	h, body, err := c.resp.next()
	switch {
	case err == errAgain:
		return
	case err == nil:
		err = c.judge(h, body)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.l.answered(c, c.checked)
	switch {
	case h.close || c.l.g.opts.Close:
		c.state = closing
		c.awaitEOF()
	case c.hup:
		c.hangUp()
		fallthrough
	default:
		c.l.release(c, c.l.woken)
	}
}

// judge says whether a whole answer is a good one.
func (c *conn) judge(h head, body []byte) error {
	if h.status/100 != 2 {
		return statusError(h.status)
	}
	if c.resp.r != c.resp.w {
		return errors.New("bytes after the response")
	}
	if check := c.l.g.opts.Check; check != nil {
		begin := c.l.g.clock()
		err := check(c.number, body)
		c.checked = c.l.g.clock() - begin
		return err
	}
	return nil
}

// awaitEOF lets the server close first, as it said it would: the side that
// closes first keeps the port for a minute, and here ports are few.
func (c *conn) awaitEOF() {
	var b [256]byte
	for {
		if _, err := c.Read(b[:]); err == errAgain {
			return
		} else if err != nil {
			break
		}
	}
	c.hangUp()
	c.l.release(c, c.l.woken)
}

// fail ends the request, whatever it is doing.
func (c *conn) fail(err error) {
	wasDialing, wasClosing := c.state == dialing, c.state == closing
	c.hangUp()
	if wasClosing { // was counted when it was answered
		c.l.release(c, c.l.g.clock())
		return
	}
	if wasDialing {
		err = dialError{err}
	}
	c.l.count(err)
	if wasDialing && c.l.g.opts.Rate == 0 {
		c.l.pause(c)
		return
	}
	c.l.release(c, c.l.g.clock())
}

// abort drops the request.
func (c *conn) abort() {
	if c.state == idle {
		return
	}
	if c.state != closing {
		c.l.count(nil)
	}
	c.hangUp()
	c.l.release(c, c.l.g.clock())
}

// hangUp closes the connection, if there is one.
func (c *conn) hangUp() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd) // nothing is buffered: there is nothing to lose
		c.fd = -1
		c.generation++
	}
}
