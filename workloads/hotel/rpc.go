package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean/leangrpc"
	"github.com/tare-trace/tare/workloads/internal/service"
)

// numberHeader is the metadata that carries the number of the request.
const numberHeader = "x-request-id"

type numberKey struct{}

func withNumber(ctx context.Context, n uint64) context.Context {
	return context.WithValue(ctx, numberKey{}, n)
}

// numberOf is the number of the request that ctx belongs to.
func numberOf(ctx context.Context) uint64 {
	n, _ := ctx.Value(numberKey{}).(uint64)
	return n
}

// withText is text with the number of the request at its end.
func withText(ctx context.Context, text string) string {
	return string(strconv.AppendUint([]byte(text), numberOf(ctx), 10))
}

// serve answers gRPC calls until ctx ends.
func (n *node) serve(ctx context.Context, register func(context.Context, *node, *grpc.Server) error) error {
	options := []grpc.ServerOption{grpc.UnaryInterceptor(n.receive)}
	switch n.tracing.Pipeline() {
	case service.Official:
		options = append(options, grpc.StatsHandler(numbered{otelgrpc.NewServerHandler(), metadata.FromIncomingContext}))
	case service.Lean:
		options = append(options, grpc.StatsHandler(numbered{leangrpc.NewServerHandler(), metadata.FromIncomingContext}))
	}
	server := grpc.NewServer(options...)
	if err := register(ctx, n, server); err != nil {
		return err
	}
	l, err := service.Listen(n.env)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s listens on %s\n", n.role, l.Addr())
	return service.Until(ctx, func() error { return server.Serve(l) }, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		server.GracefulStop()
		return ctx.Err()
	}, n.tracing.Shutdown)
}

// receive takes the number from a call, and is late where DELAY says so.
func (n *node) receive(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	number, err := strconv.ParseUint(first(md), 10, 64)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s: %v", numberHeader, err)
	}
	n.wait(number)
	return handle(withNumber(ctx, number), req)
}

// wait is the time that a request's processing takes longer here.
func (n *node) wait(number uint64) {
	if d := n.delays.Of(n.role, number); d > 0 {
		time.Sleep(d)
	}
}

func first(md metadata.MD) string {
	if v := md.Get(numberHeader); len(v) > 0 {
		return v[0]
	}
	return ""
}

// send gives the number to a call.
func send(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(metadata.AppendToOutgoingContext(ctx, numberHeader, withText(ctx, "")), method, req, reply, conn, opts...)
}

// dial connects to the replicas of a service, which take turns, and returns when
// the first of them is there. The connection ends with the process.
func (n *node) dial(ctx context.Context, key string) (*grpc.ClientConn, error) {
	all, err := n.addresses(key)
	if err != nil {
		return nil, err
	}
	replicas := manual.NewBuilderWithScheme("replicas")
	var state resolver.State
	for _, a := range all {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	replicas.InitialState(state)
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(send), grpc.WithResolvers(replicas),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
	}
	switch n.tracing.Pipeline() {
	case service.Official:
		options = append(options, grpc.WithStatsHandler(numbered{otelgrpc.NewClientHandler(), metadata.FromOutgoingContext}))
	case service.Lean:
		options = append(options, grpc.WithStatsHandler(numbered{leangrpc.NewClientHandler(), metadata.FromOutgoingContext}))
	}
	conn, err := grpc.NewClient("replicas:///"+key, options...)
	if err != nil {
		return nil, err
	}
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if !conn.WaitForStateChange(ctx, s) {
			return nil, fmt.Errorf("%s: no replica of %v is there: %w", key, all, ctx.Err())
		}
	}
	return conn, nil
}

// numbered gives the spans of a stats.Handler the number, as OpenTelemetry's
// conventions name an element of a call's metadata.
type numbered struct {
	stats.Handler
	metadata func(context.Context) (metadata.MD, bool)
}

func (h numbered) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	ctx = h.Handler.TagRPC(ctx, info)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		md, _ := h.metadata(ctx)
		span.SetAttributes(attribute.StringSlice("rpc.request.metadata."+numberHeader, md.Get(numberHeader)))
	}
	return ctx
}
