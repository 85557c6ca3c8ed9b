package bound

import (
	"context"
	"io"
	"reflect"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/tare-trace/tare/collector/internal/limit"
)

// grpcServer is the middleware of one gRPC server. grpc-go decodes a message before any
// interceptor runs, authentication too, so the message is checked where it is decoded. A
// codec can only answer Internal; so it keeps what it found for the interceptor.
type grpcServer struct {
	delegate encoding.CodecV2
	refusals *refusals
	budget   *budget
	shapes   map[string]*shape // by the name of the Go type
	found    sync.Map          // the decoded message → verdict
}

// verdict is a refusal, or the memory that is to be given back.
type verdict struct {
	refusal *refusal
	taken   int64
}

func newGRPC(refusals *refusals) *grpcServer {
	return &grpcServer{
		delegate: encoding.GetCodecV2("proto"), refusals: refusals, budget: shared,
		shapes: map[string]*shape{
			"ExportTraceServiceRequest": tracesShape, "ExportMetricsServiceRequest": metricsShape,
			"ExportLogsServiceRequest": logsShape, "PostSpansRequest": jaegerShape,
		},
	}
}

func (s *grpcServer) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(s),
		grpc.UnaryInterceptor(s.intercept), // runs before those that the framework chains
		grpc.InTapHandle(deadline),
		grpc.ConnectionTimeout(headerTimeout),
		grpc.MaxHeaderListSize(16 << 10),
	}
}

// deadline ends calls whose message does not arrive.
func deadline(call context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithTimeout(call, bodyTimeout)
	context.AfterFunc(call, cancel) // releases the timer with the call
	return ctx, nil
}

func (s *grpcServer) Name() string { return s.delegate.Name() }

func (s *grpcServer) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return s.delegate.Marshal(v)
}

func (s *grpcServer) Unmarshal(data mem.BufferSlice, v any) error {
	taken, refusal := s.admit(data, v)
	if refusal != nil {
		s.found.Store(v, verdict{refusal: refusal})
		return nil
	}
	if err := s.delegate.Unmarshal(data, v); err != nil {
		s.budget.give(taken)
		s.found.Store(v, verdict{refusal: bad("malformed", "the request cannot be decoded: %.200s", err.Error())})
		return nil
	}
	s.found.Store(v, verdict{taken: taken})
	return nil
}

func (s *grpcServer) admit(data mem.BufferSlice, v any) (taken int64, _ *refusal) {
	t := reflect.TypeOf(v)
	if t.Kind() != reflect.Pointer || s.shapes[t.Elem().Name()] == nil {
		return 0, bad("malformed", "%v is not a message that this receiver decodes", t)
	}
	taken = 3 * int64(data.Len()) // as it arrived, in one piece, and its texts
	if !s.budget.take(taken) {
		return 0, busy
	}
	body := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer body.Free()
	var cost int64
	if err := s.shapes[t.Elem().Name()].walk(body.ReadOnlyData(), 0, &cost, s.budget.message()); err != nil {
		s.budget.give(taken)
		return 0, refused(err)
	}
	if !s.budget.take(cost) {
		s.budget.give(taken)
		return 0, busy
	}
	return taken + cost, nil
}

func (s *grpcServer) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	found, ok := s.found.LoadAndDelete(req)
	if !ok {
		return nil, status.Error(codes.Internal, "the request was not checked")
	}
	v := found.(verdict) //nolint:errcheck // nothing else is stored
	if v.refusal != nil {
		from := "unknown"
		if p, ok := peer.FromContext(ctx); ok {
			from = p.Addr.String()
		}
		s.refusals.add(ctx, from, v.refusal)
		return nil, status.Error(v.refusal.grpc, v.refusal.text)
	}
	defer s.budget.give(v.taken)
	ctx, rejected := limit.Watch(ctx)
	answer, err := next(ctx, req)
	switch {
	case err != nil || rejected.Spans() == 0:
		return answer, err
	case info.FullMethod == exportTraces:
		b, err := partial(rejected).MarshalProto()
		return encoded(b), err
	case rejected.All():
		return nil, status.Error(codes.InvalidArgument, rejected.Text())
	}
	return answer, nil
}

// exportTraces is OTLP's method. Jaeger's answer has no field for what was rejected.
const exportTraces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// compressor bounds how many messages are decompressed at once: grpc-go bounds only the
// size of each. By then all of a message has arrived, so a turn is short.
type compressor struct {
	encoding.Compressor
	turns chan struct{}
}

// boundCompressors replaces the compressors that gRPC knows, for the whole process.
var boundCompressors = sync.OnceFunc(func() {
	turns := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for _, name := range []string{"gzip", "zstd", "snappy"} {
		if c := encoding.GetCompressor(name); c != nil {
			encoding.RegisterCompressor(&compressor{c, turns})
		}
	}
})

func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	c.turns <- struct{}{}
	end := sync.OnceFunc(func() { <-c.turns })
	var inner io.Reader
	var err error
	if c.Name() == "zstd" {
		inner, err = newZstd(r)
	} else {
		inner, err = c.Compressor.Decompress(r)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &turn{inner, end}, nil
}

// turn is a message that is being decompressed. grpc-go closes it.
type turn struct {
	io.Reader
	end func()
}

func (t *turn) Close() error {
	t.end()
	if c, ok := t.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Times that clients have, where a configuration names none.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)
