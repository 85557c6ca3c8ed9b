package otlpgrpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

type answer = func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error)

func partial(rejected int64, message string) *coltracepb.ExportTraceServiceResponse {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

func TestPartialSuccess(t *testing.T) {
	for name, test := range map[string]struct {
		answer   *coltracepb.ExportTraceServiceResponse
		rejected int
		handled  string
	}{
		"full":    {&coltracepb.ExportTraceServiceResponse{}, 0, ""},
		"some":    {partial(2, "too old"), 2, "2 spans rejected: too old"},
		"all":     {partial(999, ""), 5, "5 spans rejected"},
		"warning": {partial(0, "old version"), 0, "warns: old version"},
		"long":    {partial(1, strings.Repeat("x", 3<<20)), 1, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			said := handled(t)
			c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) { return test.answer, nil })
			rejected, err := newExporter(t, to(c)...).Export(t.Context(), otlptest.Request(t, 5), 5)
			if err != nil || rejected != test.rejected {
				t.Errorf("rejected %d, error %v; want %d", rejected, err, test.rejected)
			}
			if got := said(); !strings.Contains(got, test.handled) || (got == "") != (test.handled == "") || len(got) > 2000 {
				t.Errorf("the error handler got %.100q, want %q", got, test.handled)
			}
		})
	}
}

func TestGiantResponse(t *testing.T) {
	c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		return partial(1, strings.Repeat("x", 5<<20)), nil
	})
	if _, err := newExporter(t, to(c)...).Export(t.Context(), otlptest.Request(t, 1), 1); status.Code(err) != codes.ResourceExhausted || len(c.requests()) != 1 {
		t.Errorf("error %v after %d calls", err, len(c.requests()))
	}
}

// failing answers with err until the n-th call.
func failing(err error, n int) answer {
	return func(_ context.Context, call int) (*coltracepb.ExportTraceServiceResponse, error) {
		if call < n {
			return nil, err
		}
		return partial(1, ""), nil
	}
}

func withDelay(t *testing.T, code codes.Code, delay time.Duration) error {
	t.Helper()
	s, err := status.New(code, "busy").WithDetails(
		&errdetails.DebugInfo{Detail: "beside the point"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)},
	)
	require.NoError(t, err)
	return s.Err()
}

func TestRetries(t *testing.T) {
	failures := []error{withDelay(t, codes.ResourceExhausted, 0), withDelay(t, codes.Unavailable, time.Millisecond)}
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss} {
		failures = append(failures, status.Error(code, "busy"))
	}
	for _, failure := range failures {
		for _, compression := range []otlpgrpc.Compression{otlpgrpc.NoCompression, otlpgrpc.GzipCompression} {
			_ = handled(t)
			c := newCollector(t, failing(failure, 3))
			rejected, err := newExporter(t, to(c, otlpgrpc.WithCompression(compression))...).Export(t.Context(), otlptest.Request(t, 7), 7)
			got := c.requests()
			if err != nil || rejected != 1 || len(got) != 3 {
				t.Fatalf("%v: rejected %d, error %v after %d calls", failure, rejected, err, len(got))
			}
			for _, r := range got {
				if !proto.Equal(r.request, got[0].request) || otlptest.Spans(r.request) != 7 {
					t.Fatal("a repeated request is not the same")
				}
			}
		}
	}
}

func TestNotRetried(t *testing.T) {
	failures := []error{
		status.Error(codes.ResourceExhausted, "busy"), // without RetryInfo
		withDelay(t, codes.ResourceExhausted, time.Hour),
		withDelay(t, codes.Unavailable, time.Hour), // beyond quick's limit
		withDelay(t, codes.InvalidArgument, 0),
	}
	for _, code := range []codes.Code{
		codes.Unknown, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.Unimplemented, codes.Internal, codes.Unauthenticated,
	} {
		failures = append(failures, status.Error(code, "busy"))
	}
	for _, failure := range failures {
		c := newCollector(t, failing(failure, 2))
		// Without a timeout, so that only MaxElapsedTime can be the reason.
		_, err := newExporter(t, to(c, otlpgrpc.WithTimeout(0))...).Export(t.Context(), otlptest.Request(t, 1), 1)
		if n := len(c.requests()); n != 1 || err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("%v: %d calls, error %v", failure, n, err)
		}
	}
}

// A collector that starts later, on a port that refuses until then.
func TestConnectionRefusedUntilItIsThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	_ = listener.Close()
	refused := make(chan struct{}, 100)
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		return conn, err
	}
	e := newExporter(t, otlpgrpc.WithEndpointURL("http://"+address), otlpgrpc.WithRetry(quick), otlpgrpc.WithDialOption(grpc.WithContextDialer(dial)))
	done := make(chan error)
	go func() {
		_, err := e.Export(t.Context(), otlptest.Request(t, 1), 1)
		done <- err
	}()
	<-refused
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("another process took the port: %v", err)
	}
	serve(t, listener, nil)
	assert.NoError(t, <-done)
}

func TestConnectionRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_ = listener.Close()
	e := newExporter(t, otlpgrpc.WithEndpointURL("http://"+listener.Addr().String()), otlpgrpc.WithRetry(otlpgrpc.RetryConfig{}))
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
}

func TestSlowServer(t *testing.T) {
	for name, test := range map[string]struct {
		ctx, option time.Duration
		env         string
	}{
		"context":  {ctx: 20 * time.Millisecond, option: time.Minute},
		"option":   {ctx: time.Minute, option: 20 * time.Millisecond},
		"variable": {ctx: time.Minute, env: "20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", test.env)
			c := newCollector(t, func(ctx context.Context, _ int) (*coltracepb.ExportTraceServiceResponse, error) {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("the server is not told the deadline")
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			opts := to(c)
			if test.option > 0 {
				opts = append(opts, otlpgrpc.WithTimeout(test.option))
			}
			ctx, cancel := context.WithTimeout(t.Context(), test.ctx)
			defer cancel()
			if _, err := newExporter(t, opts...).Export(ctx, otlptest.Request(t, 1), 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want the deadline's", err)
			}
		})
	}
}

func TestNothingToSend(t *testing.T) {
	c := newCollector(t, nil)
	if rejected, err := newExporter(t, to(c)...).Export(t.Context(), nil, 0); rejected != 0 || err != nil || len(c.requests()) != 0 {
		t.Errorf("rejected %d, error %v, %d calls", rejected, err, len(c.requests()))
	}
}
