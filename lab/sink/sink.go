// Package sink receives OpenTelemetry traces (OTLP over HTTP with protobuf) at the
// lowest cost that a receiver can have while something is measured: bodies are
// counted, or appended to a file as they arrived; they are decoded afterwards. It
// refuses to be a collector: it answers "accepted" before it has decoded anything,
// it forwards nothing, and it reads neither metrics nor logs nor OTLP as JSON.
package sink

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// MaxBody bounds one OTLP request, before and after decompression (bytes).
const MaxBody = 64 << 20

// Options of a sink.
type Options struct {
	// Addr is the host:port to listen on; port 0 is a free one. Empty means
	// 127.0.0.1:0.
	Addr string
	// File is where kept bodies go; it is created, or emptied, and stays after
	// Close. If it is empty, the file has no name and is in Dir (by default the
	// system's directory of temporary files): it disappears with the process,
	// even if that is killed. Bodies may be hundreds of MB.
	File string
	Dir  string
}

// Sink is a receiver that listens. All methods may be called concurrently.
type Sink struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup

	counters counters
	faults   faults
	kept     kept

	// closing is closed first; active is held (read) by every handler, so
	// that Close can wait for them: http.Server.Close does not.
	closing chan struct{}
	active  sync.RWMutex
	once    sync.Once
	closed  error
}

// New listens and serves until Close. Bodies are only counted until Keep.
func New(o Options) (*Sink, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s := &Sink{closing: make(chan struct{})}
	s.faults.init()
	if err := s.kept.open(o.File, o.Dir); err != nil {
		return nil, fmt.Errorf("file of received spans: %w", err)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("receiver of spans: %w", err), s.kept.close())
	}
	s.listener = listener
	s.server = &http.Server{Handler: s.handler(), ReadHeaderTimeout: readHeaderTimeout}
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // ends with Close
	return s, nil
}

// Addr is host:port, the endpoint without its scheme.
func (s *Sink) Addr() string { return s.listener.Addr().String() }

// Endpoint is http://host:port, the value of OTEL_EXPORTER_OTLP_ENDPOINT.
func (s *Sink) Endpoint() string { return "http://" + s.Addr() }

// Keep decides whether bodies are kept from now on, or only counted.
func (s *Sink) Keep(on bool) { s.kept.on.Store(on) }

// Reset forgets what was kept, and the error of a write that failed. The
// counters go on.
func (s *Sink) Reset() error { return s.kept.reset() }

// Close ends all connections, waits for what serves them, and closes the file.
// Requests that Stall holds are refused.
func (s *Sink) Close() error {
	s.once.Do(func() {
		close(s.closing)
		err := s.server.Close()
		if errors.Is(err, net.ErrClosed) {
			err = nil
		}
		s.listener.Close() // where Serve has not begun
		s.serving.Wait()
		s.active.Lock() // until the last handler has returned
		defer s.active.Unlock()
		s.closed = errors.Join(err, s.kept.close())
	})
	return s.closed
}

// enter registers a handler; leave must be called if it returns true. False: the
// sink is closing.
func (s *Sink) enter() bool {
	s.active.RLock()
	select {
	case <-s.closing:
		s.active.RUnlock()
		return false
	default:
		return true
	}
}

func (s *Sink) leave() { s.active.RUnlock() }
