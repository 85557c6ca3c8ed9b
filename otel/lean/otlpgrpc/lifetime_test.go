package otlpgrpc_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// stalling is a connection whose peer reads nothing for a while: writes wait
// until it goes on, as they do when the peer's window is full.
type stalling struct {
	net.Conn
	wrote chan struct{} // a large write has begun
	goOn  chan struct{}

	mu   sync.Mutex
	sent []byte
}

func (s *stalling) Write(data []byte) (int, error) {
	if len(data) > 10_000 {
		select {
		case s.wrote <- struct{}{}:
		default:
		}
		<-s.goOn
	}
	s.mu.Lock()
	s.sent = append(s.sent, data...)
	s.mu.Unlock()
	return s.Conn.Write(data)
}

// After Export the caller reuses the bytes at once, while gRPC's writer may be
// in the middle of a frame of them.
func TestNothingReadsTheRequestAfterExport(t *testing.T) {
	for _, compression := range []otlpgrpc.Compression{otlpgrpc.NoCompression, otlpgrpc.GzipCompression} {
		c := newCollector(t, nil)
		conn := &stalling{wrote: make(chan struct{}, 1), goOn: make(chan struct{})}
		dial := func(ctx context.Context, addr string) (_ net.Conn, err error) {
			conn.Conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return conn, err
		}
		e := newExporter(t, to(c, otlpgrpc.WithCompression(compression), otlpgrpc.WithDialOption(grpc.WithContextDialer(dial)))...)
		request := otlptest.Request(t, 4_000)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-conn.wrote
			cancel()
		}()
		if _, err := e.Export(ctx, request, 4_000); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want the cancellation", err)
		}
		for i := range request {
			request[i] = 0xff
		}
		close(conn.goOn)
		// The connection is good, and what was begun goes out before this.
		if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
			t.Fatal(err)
		}
		conn.mu.Lock()
		if len(conn.sent) < 10_000 || bytes.Contains(conn.sent, bytes.Repeat([]byte{0xff}, 50)) {
			t.Errorf("of %d bytes sent, some were written by the caller after Export had returned", len(conn.sent))
		}
		conn.mu.Unlock()
	}
}

// Buffers are reused between exports: what arrives must be what was sent.
func TestReusedBuffers(t *testing.T) {
	c := newCollector(t, nil)
	e := newExporter(t, to(c)...)
	for _, spans := range []int{500, 3, 700, 1, 500} {
		if _, err := e.Export(t.Context(), otlptest.Request(t, spans), spans); err != nil {
			t.Fatal(err)
		}
		got := c.requests()
		assert.Equal(t, spans, otlptest.Spans(got[len(got)-1].request), "spans arrived")
	}
}

func TestExportAfterShutdown(t *testing.T) {
	c := newCollector(t, nil)
	e := newExporter(t, to(c)...)
	for range 2 {
		require.NoError(t, e.Shutdown(t.Context()))
	}
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); !errors.Is(err, otlpgrpc.ErrShutdown) || len(c.requests()) != 0 {
		t.Errorf("error %v, %d calls", err, len(c.requests()))
	}
}

func TestShutdownInTheMiddleOfARetry(t *testing.T) {
	asked := make(chan struct{}, 1)
	delay := withDelay(t, codes.Unavailable, time.Hour)
	c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		asked <- struct{}{}
		return nil, delay
	})
	patient := otlpgrpc.RetryConfig{Enabled: true} // no limit of elapsed time
	e := newExporter(t, to(c, otlpgrpc.WithRetry(patient), otlpgrpc.WithTimeout(0))...)
	exported := make(chan error, 1)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		exported <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, e.Shutdown(ctx), context.DeadlineExceeded, "Shutdown")
	if err := <-exported; !errors.Is(err, otlpgrpc.ErrShutdown) || status.Code(err) == codes.OK {
		t.Errorf("Export: %v, want ErrShutdown and the last failure", err)
	}
}

func TestShutdownLetsAnExportFinish(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		close(arrived)
		<-goOn
		return &coltracepb.ExportTraceServiceResponse{}, nil
	})
	e := newExporter(t, to(c)...)
	exported, shut := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		exported <- err
	}()
	<-arrived
	go func() { shut <- e.Shutdown(t.Context()) }()
	close(goOn)
	assert.NoError(t, errors.Join(<-exported, <-shut))
}
