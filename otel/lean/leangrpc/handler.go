package leangrpc

import (
	"context"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean"
)

// handler traces the calls of one side.
type handler struct {
	kind        trace.SpanKind
	propagators propagation.TextMapPropagator
	lean        *lean.Tracer
	api         trace.Tracer // nil if lean is not
}

// NewServerHandler makes a handler for grpc.StatsHandler: each call that arrives
// gets a server span, below what its metadata says.
func NewServerHandler(opts ...Option) stats.Handler { return newHandler(trace.SpanKindServer, opts) }

// NewClientHandler makes a handler for grpc.WithStatsHandler: each call gets a
// client span, and its metadata the span's context.
func NewClientHandler(opts ...Option) stats.Handler { return newHandler(trace.SpanKindClient, opts) }

func newHandler(kind trace.SpanKind, opts []Option) *handler {
	c := newConfig(opts)
	h := &handler{kind: kind, propagators: c.propagators}
	var ok bool
	if h.lean, ok = lean.TracerOf(c.provider, ScopeName); !ok {
		h.api = c.provider.Tracer(ScopeName)
	}
	return h
}

// TagConn does nothing: connections have no spans.
func (*handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (*handler) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC begins the span of a call.
func (h *handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if h.kind == trace.SpanKindClient {
		return h.inject(h.start(ctx, info.FullMethodName))
	}
	md, _ := metadata.FromIncomingContext(ctx) // nil serves
	return h.start(h.propagators.Extract(ctx, carrier(md)), info.FullMethodName)
}

func (h *handler) inject(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	h.propagators.Inject(ctx, carrier(md))
	return metadata.NewOutgoingContext(ctx, md)
}

func (h *handler) start(ctx context.Context, method string) context.Context {
	name, named := strings.CutPrefix(method, "/")
	if h.lean == nil {
		ctx, _ = h.api.Start(ctx, name, trace.WithSpanKind(h.kind), trace.WithAttributes(attributes(name, named)...))
		return ctx
	}
	start := lean.Start{Name: name, Kind: h.kind}
	early := h.lean.UsesAttributes()
	if early {
		start.Attributes = attributes(name, named)
	}
	d := h.lean.Decide(ctx, &start)
	if !d.Recording() {
		return h.lean.DropIn(new(lean.Unrecorded), ctx, &d)
	}
	span := new(lean.Span)
	ctx = h.lean.StartIn(span, ctx, &start, &d)
	if !early {
		if named {
			span.SetString(semconv.RPCMethodKey, name)
		}
		span.SetString(semconv.RPCSystemNameKey, semconv.RPCSystemNameGRPC.Value.AsString())
	}
	return ctx
}

// attributes that are known when a call begins. A method without a slash in front
// is none.
func attributes(name string, named bool) []attribute.KeyValue {
	if !named {
		return []attribute.KeyValue{semconv.RPCSystemNameGRPC}
	}
	return []attribute.KeyValue{semconv.RPCMethod(name), semconv.RPCSystemNameGRPC}
}

// HandleRPC completes the span of a call.
func (h *handler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InHeader:
		if !s.Client {
			address(ctx, s.LocalAddr)
		}
	case *stats.OutHeader:
		if s.Client {
			address(ctx, s.RemoteAddr)
		}
	case *stats.End:
		h.end(ctx, s.Error)
	}
}

func address(ctx context.Context, a net.Addr) {
	span := trace.SpanFromContext(ctx)
	if a == nil || !span.IsRecording() {
		return
	}
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String() // of a socket in the file system
	}
	attrs := []attribute.KeyValue{semconv.ServerAddress(host)}
	if p, err := strconv.ParseUint(port, 10, 16); err == nil {
		attrs = append(attrs, semconv.ServerPort(int(p)))
	}
	span.SetAttributes(attrs...)
}

func (h *handler) end(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	code := grpccodes.OK
	if err != nil {
		s, _ := status.FromError(err)
		code = s.Code()
		if h.kind == trace.SpanKindClient || serverFault(code) {
			span.SetStatus(codes.Error, s.Message())
		}
	}
	span.SetAttributes(semconv.RPCResponseStatusCode(codeName(code)))
	span.End()
}

// serverFault tells the codes that are an error of the server, by OpenTelemetry's
// conventions, from those that tell a client what it did wrong.
func serverFault(c grpccodes.Code) bool {
	switch c {
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented,
		grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		return true
	}
	return false
}

// names of codes as gRPC's specification writes them, by number.
var names = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

func codeName(c grpccodes.Code) string {
	if int(c) < len(names) {
		return names[c]
	}
	return "CODE(" + strconv.FormatInt(int64(c), 10) + ")"
}

// carrier is metadata for propagators.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if v := metadata.MD(c).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
