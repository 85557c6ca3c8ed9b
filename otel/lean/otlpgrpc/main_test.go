package otlpgrpc_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// The contract of package lean, which this package implements without it.
var _ interface {
	Export(ctx context.Context, request []byte, spans int) (rejected int, err error)
	Shutdown(ctx context.Context) error
} = (*otlpgrpc.Exporter)(nil)

func TestMain(m *testing.M) {
	otlptest.ClearEnvironment()
	goleak.VerifyTestMain(m)
}

// received is a call as a collector sees it.
type received struct {
	metadata metadata.MD
	request  *coltracepb.ExportTraceServiceRequest
}

// collector is a real OTLP/gRPC server, with the generated code of proto/otlp.
// answer (default: success) is called with the number of the call, from 1.
type collector struct {
	coltracepb.UnimplementedTraceServiceServer
	address string
	answer  func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error)

	mu       sync.Mutex
	got      []received
	encoding []string // of each call, as it came over the wire
}

func newCollector(t testing.TB, answer func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error), opts ...grpc.ServerOption) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serve(t, listener, answer, opts...)
}

func serve(t testing.TB, listener net.Listener, answer func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error), opts ...grpc.ServerOption) *collector {
	t.Helper()
	c := &collector{address: listener.Addr().String(), answer: answer}
	server := grpc.NewServer(append(opts, grpc.StatsHandler(&headers{c}), grpc.MaxRecvMsgSize(64<<20))...)
	coltracepb.RegisterTraceServiceServer(server, c)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		assert.NoError(t, <-done)
	})
	return c
}

func (c *collector) Export(ctx context.Context, request *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	c.got = append(c.got, received{md, request})
	n := len(c.got)
	c.mu.Unlock()
	if c.answer != nil {
		return c.answer(ctx, n)
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func (c *collector) requests() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]received(nil), c.got...)
}

// headers notes the compression, which gRPC hides from a handler.
type headers struct{ collector *collector }

func (h *headers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (h *headers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *headers) HandleConn(context.Context, stats.ConnStats)                       {}
func (h *headers) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InHeader); ok {
		h.collector.mu.Lock()
		h.collector.encoding = append(h.collector.encoding, in.Compression)
		h.collector.mu.Unlock()
	}
}

// quick retries at once, for a limited time.
var quick = otlpgrpc.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: 10 * time.Second}

func newExporter(t testing.TB, opts ...otlpgrpc.Option) *otlpgrpc.Exporter {
	t.Helper()
	e, err := otlpgrpc.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Shutdown(context.Background())) })
	return e
}

// to connects to the collector in plain text and retries quickly.
func to(c *collector, opts ...otlpgrpc.Option) []otlpgrpc.Option {
	return append([]otlpgrpc.Option{otlpgrpc.WithEndpoint(c.address), otlpgrpc.WithInsecure(), otlpgrpc.WithRetry(quick)}, opts...)
}

// handled collects what goes to OpenTelemetry's error handler during a test.
func handled(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var text strings.Builder
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text.WriteString(err.Error())
	}))
	t.Cleanup(func() {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { _, _ = os.Stderr.WriteString(err.Error() + "\n") }))
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}
