package leangrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
	"github.com/tare-trace/tare/otel/lean/leangrpc"
	"github.com/tare-trace/tare/otel/lean/w3c"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handlers are an instrumentation of both sides.
type handlers func(trace.TracerProvider) (server, client stats.Handler)

func official(tp trace.TracerProvider) (server, client stats.Handler) {
	opts := []otelgrpc.Option{otelgrpc.WithTracerProvider(tp), otelgrpc.WithPropagators(w3c.Propagator{})}
	return otelgrpc.NewServerHandler(opts...), otelgrpc.NewClientHandler(opts...)
}

func ours(tp trace.TracerProvider) (server, client stats.Handler) {
	opts := []leangrpc.Option{leangrpc.WithTracerProvider(tp), leangrpc.WithPropagators(w3c.Propagator{})}
	return leangrpc.NewServerHandler(opts...), leangrpc.NewClientHandler(opts...)
}

// service answers with the code that the request's service name is, and notes
// whether it was told a trace.
type service struct {
	health.UnimplementedHealthServer
	env *equality.Env
}

var wanted = map[string]error{
	"":     nil,
	"fine": nil, "missing": status.Error(codes.NotFound, "no such thing"), "broken": status.Error(codes.Internal, "broken"),
	"odd": status.Error(codes.Code(77), "odd"), "plain": errors.New("no status"),
}

func (s service) Check(ctx context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.env.Note("%d traceparents, x-own %q", len(md.Get("traceparent")), md.Get("x-own"))
	return &health.HealthCheckResponse{}, wanted[r.GetService()]
}

func (s service) Watch(r *health.HealthCheckRequest, out grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	for range 3 {
		if err := out.Send(&health.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return wanted[r.GetService()]
}

// calls makes calls of every kind through one connection.
func calls(ctx context.Context, t *testing.T, e *equality.Env, with handlers) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serverSide, clientSide := with(e.TracerProvider)
	server := grpc.NewServer(grpc.StatsHandler(serverSide))
	health.RegisterHealthServer(server, service{env: e})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer func() {
		server.GracefulStop() // when every call of the server has ended, its spans have
		assert.NoError(t, <-ended)
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(clientSide))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	c := health.NewHealthClient(conn)
	for _, name := range []string{"", "fine", "missing", "broken", "odd", "plain"} {
		_, err := c.Check(metadata.AppendToOutgoingContext(ctx, "x-own", "1"), &health.HealthCheckRequest{Service: name})
		e.Note("%s: %v", name, status.Code(err))
		stream, err := c.Watch(ctx, &health.HealthCheckRequest{Service: name})
		for err == nil {
			_, err = stream.Recv()
		}
		e.Note("%s: end %v, %v", name, err == io.EOF, status.Code(err))
	}
	if _, err := c.List(ctx, &health.HealthListRequest{}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// Spans are those of otelgrpc, on either pipeline, sampled and not.
func TestSpansAreOtelgrpcs(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	for name, sampler := range map[string]sdktrace.Sampler{
		"sampled": sdktrace.AlwaysSample(), "not sampled": sdktrace.ParentBased(sdktrace.NeverSample()),
	} {
		t.Run(name, func(t *testing.T) {
			run := func(with handlers, pipe equality.Pipeline) equality.Result {
				res, err := equality.Run(equality.Program{
					Name: name, Concurrent: true,
					Options: func(*equality.Env) equality.Options { return equality.Options{Sampler: sampler} },
					Run:     func(ctx context.Context, e *equality.Env) { calls(ctx, t, e, with) },
				}, pipe, r, false)
				require.NoError(t, err)
				for i, s := range res.Spans {
					for _, kv := range s.GetAttributes() {
						if kv.GetKey() == "server.port" {
							kv.Value = nil // another server's
						}
					}
					res.Spans[i] = &equality.Span{Span: s.Span} // scopes differ on purpose
				}
				return res
			}
			want := run(official, equality.Official)
			if n := len(want.Spans); (n > 0) != (name == "sampled") {
				t.Fatalf("%d spans", n)
			}
			for what, got := range map[string]equality.Result{"on lean": run(ours, equality.Lean), "on the SDK": run(ours, equality.Official)} {
				assert.NoError(t, equality.Compare(want, got, false, false), "%s", what)
			}
		})
	}
}
