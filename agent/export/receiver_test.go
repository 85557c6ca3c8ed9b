package export

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // the server's side of it
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var (
	protocols = []string{GRPC, HTTPProtobuf}

	errBusy    = errors.New("busy")    // a receiver may be asked again
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
	served := make(chan struct{})
	if r.protocol == GRPC {
		s := grpc.NewServer(grpc.StatsHandler(compression{r}))
		coltracepb.RegisterTraceServiceServer(s, grpcService{r: r})
		go func() { defer close(served); _ = s.Serve(l) }()
		r.stop = func() { s.Stop(); <-served }
	} else {
		s := &http.Server{Handler: http.HandlerFunc(r.serveHTTP)} //nolint:gosec // local, in a test
		go func() { defer close(served); _ = s.Serve(l) }()
		r.stop = func() { _ = s.Close(); <-served }
	}
	t.Cleanup(func() { r.stop() })
}

func (r *receiver) take(ctx context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	r.seen++
	r.mu.Unlock()
	resp := &coltracepb.ExportTraceServiceResponse{}
	if r.answer != nil {
		var err error
		if resp.PartialSuccess, err = r.answer(ctx); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	r.requests = append(r.requests, req)
	r.mu.Unlock()
	return resp, nil
}

type grpcService struct {
	coltracepb.UnimplementedTraceServiceServer
	r *receiver
}

func (s grpcService) Export(ctx context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md["x-test"]) > 0 {
		s.r.mu.Lock()
		s.r.header = md["x-test"][0]
		s.r.mu.Unlock()
	}
	resp, err := s.r.take(ctx, req)
	switch {
	case errors.Is(err, errBusy):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return resp, nil
}

// compression observes what no handler of a gRPC service is told.
type compression struct{ r *receiver }

func (compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (compression) HandleConn(context.Context, stats.ConnStats)                       {}

func (c compression) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		c.r.mu.Lock()
		c.r.encoding = h.Compression
		c.r.mu.Unlock()
	}
}

func (r *receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP/HTTP with protobuf", http.StatusNotFound)
		return
	}
	r.mu.Lock()
	r.header, r.encoding = q.Header.Get("X-Test"), q.Header.Get("Content-Encoding")
	r.mu.Unlock()
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	req := &coltracepb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(raw, req)
	}
	var resp *coltracepb.ExportTraceServiceResponse
	if err == nil {
		resp, err = r.take(q.Context(), req)
	}
	switch {
	case errors.Is(err, errBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", "application/x-protobuf")
		raw, _ := proto.Marshal(resp)
		_, _ = w.Write(raw)
	}
}
