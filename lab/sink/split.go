package sink

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// splitter gives connections to gRPC or to HTTP/1 by their first two bytes, which
// it peeks at: HTTP/2 begins with "PRI" (RFC 9113, 3.4), OTLP over HTTP/1 with
// "POST".
type splitter struct {
	from       net.Listener
	http, grpc *half
	done       chan struct{}
	once       sync.Once
	peeking    sync.WaitGroup
	mu         sync.Mutex
	undecided  map[net.Conn]struct{}
}

func newSplitter(from net.Listener) *splitter {
	s := &splitter{from: from, done: make(chan struct{}), undecided: map[net.Conn]struct{}{}}
	s.http = &half{of: s, conns: make(chan net.Conn)}
	s.grpc = &half{of: s, conns: make(chan net.Conn)}
	return s
}

func (s *splitter) run() {
	defer s.peeking.Wait()
	for {
		c, err := s.from.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: what is open may end
			select {
			case <-s.done:
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if !s.hold(c) {
			c.Close()
			return
		}
		s.peeking.Go(func() { s.decide(c) })
	}
}

func (s *splitter) decide(c net.Conn) {
	to := s.http
	isHTTP2, err := beginsHTTP2(c)
	if isHTTP2 {
		to = s.grpc
	}
	if s.release(c) && err == nil {
		select {
		case to.conns <- c:
			return
		case <-s.done:
		}
	}
	c.Close()
}

// hold remembers a connection that close must end; false after close.
func (s *splitter) hold(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.undecided == nil {
		return false
	}
	s.undecided[c] = struct{}{}
	return true
}

func (s *splitter) release(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.undecided, c)
	return s.undecided != nil
}

func (s *splitter) close() {
	s.once.Do(func() {
		close(s.done)
		s.from.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.undecided {
			c.Close()
		}
		s.undecided = nil
	})
}

// beginsHTTP2 waits for two bytes and leaves them where they are.
func beginsHTTP2(c net.Conn) (bool, error) {
	raw, err := c.(syscall.Conn).SyscallConn() //nolint:errcheck // a TCP connection is one
	if err != nil {
		return false, err
	}
	if err := c.SetReadDeadline(time.Now().Add(readHeaderTimeout)); err != nil {
		return false, err
	}
	var b [2]byte
	var n int
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, readErr = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK)
			if !errors.Is(readErr, unix.EINTR) {
				break
			}
		}
		if errors.Is(readErr, unix.EAGAIN) {
			return false
		}
		return readErr != nil || n == 0 || n == len(b)
	})
	if err := errors.Join(err, readErr); err != nil {
		return false, err
	}
	if n == 0 {
		return false, net.ErrClosed
	}
	return b == [2]byte{'P', 'R'}, c.SetReadDeadline(time.Time{})
}

// half is the listener of one of the protocols.
type half struct {
	of    *splitter
	conns chan net.Conn
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.of.done:
		return nil, net.ErrClosed
	}
}

// Close ends both halves: neither server stops alone.
func (h *half) Close() error {
	h.of.close()
	return nil
}

func (h *half) Addr() net.Addr { return h.of.from.Addr() }
