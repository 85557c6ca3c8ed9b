package load

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// conn is a connection that saves the read which every request would waste:
// net.Conn.Read asks the kernel first and waits afterwards, but right after
// a request nothing is there to read. So the request is written inside of the
// raw read, which then waits before it reads for the first time.
type conn struct {
	net.Conn
	raw  syscall.RawConn
	step func(fd uintptr) bool // exchange, bound once: a closure would allocate

	out []byte // still to be written by the next step
	in  []byte
	n   int
	err error
}

func newConn(c net.Conn) (*conn, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: c, raw: raw}
	k.step = k.exchange
	return k, nil
}

// send has p written by the next Read, if the kernel takes it in one piece,
// as it does with every request without a large body; else at once.
func (c *conn) send(p []byte) error {
	if len(p) <= 4<<10 {
		c.out = p
		return nil
	}
	_, err := c.Write(p)
	return err
}

// Read writes what send left to be written, waits and reads once.
func (c *conn) Read(p []byte) (int, error) {
	c.in, c.n, c.err = p, 0, nil
	if err := c.raw.Read(c.step); err != nil {
		return 0, err
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.n == 0 {
		return 0, io.EOF
	}
	return c.n, nil
}

// exchange is called by the raw read, again whenever the socket may be
// readable; true ends the read.
func (c *conn) exchange(fd uintptr) bool {
	if len(c.out) > 0 {
		n, err := syscall.Write(int(fd), c.out)
		switch {
		case err == syscall.EINTR:
			n = 0
		case err != nil && err != syscall.EAGAIN:
			c.out, c.err = nil, err
			return true
		}
		c.out = c.out[max(n, 0):]
		if len(c.out) > 0 {
			// Four KiB did not fit an idle connection's send buffer.
			c.out, c.err = nil, errors.New("send buffer full")
			return true
		}
		return false
	}
	for {
		n, err := syscall.Read(int(fd), c.in)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		case nil:
			c.n = n
		default:
			c.err = err
		}
		return true
	}
}
