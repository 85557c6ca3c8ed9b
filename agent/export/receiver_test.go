package export

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/tare-trace/tare/internal/testkit"
)

var (
	protocols = []string{GRPC, HTTPProtobuf}

	errBusy    = testkit.ErrBusy       // a receiver may be asked again
	errRefused = errors.New("refused") // final
)

// receiver is a real OTLP receiver of either protocol, of which a test sets
// the answer. It runs at an address that it keeps from start to start.
type receiver struct {
	protocol, addr string

	// answer is called for each request; nil: everything is fine.
	answer func(ctx context.Context) (*coltracepb.ExportTracePartialSuccess, error)

	mu       sync.Mutex
	requests []*coltracepb.ExportTraceServiceRequest // that were taken
	seen     int                                     // all
	header   string                                  // x-test of the last request
	encoding string                                  // of the last request

	stop func()
}

// newReceiver reserves an address: one of the many loopback addresses, where
// nobody else takes a port while the receiver is down.
func newReceiver(t *testing.T, protocol string) *receiver {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{protocol: protocol, addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *receiver) url() string { return "http://" + r.addr }

func (r *receiver) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	serve := testkit.ServeOTLPOverHTTP
	if r.protocol == GRPC {
		serve = testkit.ServeOTLPOverGRPC
	}
	r.stop = serve(t, l, r.take)
}

func (r *receiver) take(e testkit.Export) (partial *testkit.ExportAnswer, err error) {
	r.mu.Lock()
	r.seen++
	r.header, r.encoding = e.Header("x-test"), e.Encoding
	r.mu.Unlock()
	m, err := e.Message()
	if err == nil && r.answer != nil {
		partial, err = r.answer(e.Context)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.requests = append(r.requests, m)
	r.mu.Unlock()
	return partial, nil
}
