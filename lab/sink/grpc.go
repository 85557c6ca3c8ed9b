package sink

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // exporters may compress
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// newRPC is a server of the collector's trace service that takes messages as
// bytes: the generated one would build every span while something is measured.
func (s *Sink) newRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(bytesCodec{}),
		grpc.MaxRecvMsgSize(MaxBody),
		grpc.StatsHandler(rpcBytes{&s.counters}),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.WaitForHandlers(true),
	)
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService",
		Methods:     []grpc.MethodDesc{{MethodName: "Export", Handler: s.export}},
		Metadata:    "opentelemetry/proto/collector/trace/v1/trace_service.proto",
	}, nil)
	return g
}

func (s *Sink) export(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order of arguments
	if !s.enter() {
		return nil, status.Error(codes.Unavailable, "closing")
	}
	defer s.leave()
	var m message
	if err := decode(&m); err != nil {
		s.counters.bad.Add(1)
		return nil, err
	}
	defer m.body.Free()
	body := m.body.ReadOnlyData()
	if err := checkTop(body); err != nil {
		s.counters.bad.Add(1)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if !s.wait(ctx) {
		s.counters.refused.Add(1)
		return nil, status.Error(codes.Unavailable, "closing, or the client has gone")
	}
	if err := s.kept.store(body, false); err != nil {
		s.counters.refused.Add(1)
		return nil, status.Error(codes.Internal, err.Error())
	}
	s.counters.requests.Add(1)
	return &m, nil // the codec makes the empty response of it
}

// message is a request as it came, after decompression.
type message struct{ body mem.Buffer }

// bytesCodec passes messages through. Its name is protobuf's, since that is what
// the bytes are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("%T is not a message of this receiver", v)
	}
	m.body = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// Marshal makes the empty ExportTraceServiceResponse: all was accepted.
func (bytesCodec) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

// rpcBytes counts bodies: only gRPC itself knows their size before decompression.
type rpcBytes struct{ counters *counters }

func (rpcBytes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (rpcBytes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (rpcBytes) HandleConn(context.Context, stats.ConnStats)                       {}

func (r rpcBytes) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		r.counters.arrived(in.CompressedLength, in.Length)
	}
}
