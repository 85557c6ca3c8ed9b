package integration

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	labsink "github.com/tare-trace/tare/lab/sink"

	"github.com/tare-trace/tare/internal/testkit"
)

// grpcSink is an OTLP/gRPC receiver that keeps every span as it came.
type grpcSink struct {
	ptraceotlp.UnimplementedGRPCServer
	address string
	away    atomic.Bool // answers Unavailable
	server  *grpc.Server

	mu    sync.Mutex
	spans map[spanKey][]byte // each with its resource and scope, as OTLP
	twice int                // spans that came more than once
	sends int
}

type spanKey struct{ trace, span string }

// newHTTPSink is an OTLP/HTTP receiver that keeps what it needs to count.
func newHTTPSink(t *testing.T) *labsink.Sink {
	t.Helper()
	s, err := labsink.New(labsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Keep(true)
	return s
}

func newGRPCSink(t *testing.T) *grpcSink {
	t.Helper()
	return newGRPCSinkAt(t, loopback(0))
}

func newGRPCSinkAt(t *testing.T, address string, options ...grpc.ServerOption) *grpcSink {
	t.Helper()
	l := testkit.Listen(t, address)
	s := &grpcSink{address: l.Addr().String(), spans: map[spanKey][]byte{}, server: grpc.NewServer(append(options, grpc.MaxRecvMsgSize(64<<20))...)}
	ptraceotlp.RegisterGRPCServer(s.server, s)
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(l) }()
	t.Cleanup(func() {
		s.server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *grpcSink) Export(_ context.Context, r ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	if s.away.Load() {
		return ptraceotlp.NewExportResponse(), status.Error(codes.Unavailable, "away")
	}
	each := split(r.Traces())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends++
	for key, bytes := range each {
		if _, ok := s.spans[key]; ok {
			s.twice++
		}
		s.spans[key] = bytes
	}
	return ptraceotlp.NewExportResponse(), nil
}

func (s *grpcSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spans)
}

// split gives every span by itself, with its resource and scope, so that what
// was sent and what arrived can be compared however it was batched.
func split(td ptrace.Traces) map[spanKey][]byte {
	out := map[spanKey][]byte{}
	var m ptrace.ProtoMarshaler
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				one := ptrace.NewTraces()
				r := one.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(r.Resource())
				r.SetSchemaUrl(rs.SchemaUrl())
				sc := r.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(sc.Scope())
				sc.SetSchemaUrl(ss.SchemaUrl())
				sp.CopyTo(sc.Spans().AppendEmpty())
				b, err := m.MarshalTraces(one)
				if err != nil {
					panic(err)
				}
				out[spanKey{sp.TraceID().String(), sp.SpanID().String()}] = b
			}
		}
	}
	return out
}

// wantSame waits until the sink has as many spans as were sent, and compares
// each.
func (s *grpcSink) wantSame(t *testing.T, sent map[spanKey][]byte) {
	t.Helper()
	testkit.Until(t, time.Minute, fmt.Sprintf("%d spans arrived", len(sent)), func() bool { return s.count() >= len(sent) })
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong := 0
	for key, want := range sent {
		got, ok := s.spans[key]
		if ok && bytes.Equal(got, want) {
			continue
		}
		if wrong++; wrong <= 3 {
			t.Errorf("span %v: arrived %t\n got %s\nwant %s", key, ok, readable(got), readable(want))
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d spans are not as they were sent", wrong, len(sent))
	}
	if len(s.spans) != len(sent) {
		t.Errorf("%d spans arrived, %d were sent", len(s.spans), len(sent))
	}
}

func readable(otlp []byte) string {
	var u ptrace.ProtoUnmarshaler
	td, err := u.UnmarshalTraces(otlp)
	if err != nil {
		return err.Error()
	}
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// span is one that arrived, with its service.
func (s *grpcSink) span(t *testing.T, trace, id string) (ptrace.Span, string) {
	t.Helper()
	s.mu.Lock()
	b, ok := s.spans[spanKey{trace, id}]
	s.mu.Unlock()
	if !ok {
		t.Fatalf("span %s of trace %s did not arrive", id, trace)
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		t.Fatal(err)
	}
	rs := td.ResourceSpans().At(0)
	service, _ := rs.Resource().Attributes().Get("service.name")
	return rs.ScopeSpans().At(0).Spans().At(0), service.AsString()
}

// traces are the ids that arrived, with the number of their spans.
func (s *grpcSink) traces() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for key := range s.spans {
		out[key.trace]++
	}
	return out
}
