package testkit

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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

// Export is a request of OTLP's TraceService, as it came.
type Export struct {
	Context  context.Context                // ends with the request
	Header   func(name string) string       // of HTTP, or gRPC's metadata
	Encoding string                         // as the header says, such as "gzip"; of the body, which is decoded
	Raw      []byte                         // an ExportTraceServiceRequest; HTTP only
	Message  func() (*ExportMessage, error) // the same, decoded
}

// ExportMessage is OTLP's request.
type ExportMessage = coltracepb.ExportTraceServiceRequest

// ExportAnswer is what OTLP's response says besides that all went well; nil: nothing.
type ExportAnswer = coltracepb.ExportTracePartialSuccess

// What a receiver may answer besides success and other errors, which are final.
var (
	ErrBusy     = errors.New("busy")             // the sender may ask again
	ErrBreakOff = errors.New("no answer at all") // the connection is closed; HTTP only
)

// ServeOTLPOverHTTP answers POST /v1/traces at a listener by a function, which may be called by several goroutines at
// once, until it is told to stop or the test ends.
func ServeOTLPOverHTTP(t testing.TB, l net.Listener, take func(Export) (*ExportAnswer, error)) (stop func()) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) { overHTTP(w, r, take) })
	srv := &http.Server{Handler: mux} //nolint:gosec // a test
	return serve(t, func() { _ = srv.Serve(l) }, func() { _ = srv.Close() })
}

// serve runs a server until stop is called, or the test ends.
func serve(t testing.TB, run, end func()) (stop func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
	}()
	stop = func() {
		end()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func overHTTP(w http.ResponseWriter, r *http.Request, take func(Export) (*ExportAnswer, error)) {
	if r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP/HTTP with protobuf", http.StatusUnsupportedMediaType)
		return
	}
	e := Export{Context: r.Context(), Header: r.Header.Get, Encoding: r.Header.Get("Content-Encoding")}
	body := io.Reader(r.Body)
	if e.Encoding == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	var err error
	if e.Raw, err = io.ReadAll(body); err != nil {
		return // who sends has ended, or was killed
	}
	e.Message = func() (*ExportMessage, error) {
		m := &ExportMessage{}
		return m, proto.Unmarshal(e.Raw, m)
	}
	partial, err := take(e)
	switch {
	case errors.Is(err, ErrBreakOff):
		panic(http.ErrAbortHandler)
	case errors.Is(err, ErrBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		raw, err := proto.Marshal(&coltracepb.ExportTraceServiceResponse{PartialSuccess: partial})
		if err != nil {
			panic(err) // it is of ours
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(raw) // who sends may have ended
	}
}

// ServeOTLPOverGRPC is ServeOTLPOverHTTP for gRPC.
func ServeOTLPOverGRPC(t testing.TB, l net.Listener, take func(Export) (*ExportAnswer, error)) (stop func()) {
	t.Helper()
	srv := grpc.NewServer(grpc.StatsHandler(compression{}))
	coltracepb.RegisterTraceServiceServer(srv, traceService{take: take})
	return serve(t, func() { _ = srv.Serve(l) }, srv.Stop)
}

type traceService struct {
	coltracepb.UnimplementedTraceServiceServer
	take func(Export) (*ExportAnswer, error)
}

func (s traceService) Export(ctx context.Context, m *ExportMessage) (*coltracepb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	header := func(name string) string {
		if v := md.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	encoding, _ := ctx.Value(compression{}).(*string)
	partial, err := s.take(Export{Context: ctx, Header: header, Encoding: *encoding, Message: func() (*ExportMessage, error) { return m, nil }})
	switch {
	case errors.Is(err, ErrBusy):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: partial}, nil
}

// compression has a call's context hold how its message was compressed, which no handler is told.
type compression struct{}

func (compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, compression{}, new(string))
}
func (compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (compression) HandleConn(context.Context, stats.ConnStats)                       {}

func (compression) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		if encoding, ok := ctx.Value(compression{}).(*string); ok {
			*encoding = h.Compression
		}
	}
}
