package sink

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/internal/testkit"
)

func openBoth(t *testing.T) (*Sink, *grpc.ClientConn) {
	t.Helper()
	s := open(t, Options{GRPC: true, Dir: t.TempDir()})
	s.Keep(true)
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, conn
}

func TestBothProtocolsOnOnePort(t *testing.T) {
	s, conn := openBoth(t)
	client := collector.NewTraceServiceClient(conn)
	for range 3 {
		resp, err := client.Export(t.Context(), request("shop", chain(1)...))
		if err != nil || resp.GetPartialSuccess() != nil {
			t.Fatalf("%v, %v", resp, err)
		}
		accepted(t, s, body(chain(2)...))
	}
	size := uint64(len(body(chain(1)...)))
	if got := s.Mark(); got != (Counts{Requests: 6, Bytes: 6 * size, Plain: 6 * size}) {
		t.Errorf("%+v", got)
	}
	if tally, err := s.Count(); err != nil || tally.Spans != 18 || tally.Traces != 2 {
		t.Errorf("%+v, %v", tally, err)
	}
}

func TestGRPCGzip(t *testing.T) {
	s, conn := openBoth(t)
	many := make([]*trace.Span, 0, 3000)
	for n := range uint64(1000) {
		many = append(many, chain(n+1)...)
	}
	_, err := collector.NewTraceServiceClient(conn).Export(t.Context(), request("shop", many...), grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	plain := uint64(len(body(many...)))
	if got := s.Mark(); got.Requests != 1 || got.Plain != plain || got.Bytes == 0 || got.Bytes >= plain/2 {
		t.Errorf("%+v, plain %d", got, plain)
	}
	if trees, err := s.Trees(3); err != nil || trees.Complete != 1000 {
		t.Errorf("%+v, %v", trees, err)
	}
}

func TestGRPCFaults(t *testing.T) {
	s, conn := openBoth(t)
	client := collector.NewTraceServiceClient(conn)
	s.Stall(true)
	before := s.counters.load().Bytes
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := client.Export(ctx, request("shop", chain(1)...))
		done <- err
	}()
	testkit.Until(t, 15*time.Second, "the body has come", func() bool { return s.counters.load().Bytes > before })
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("given up: %v", err)
	}
	testkit.Until(t, 15*time.Second, "it counts as refused", func() bool { return s.counters.load().Refused == 1 })
	s.Stall(false)
	if tally, err := s.Count(); err != nil || tally.Requests != 0 {
		t.Errorf("%+v, %v", tally, err)
	}
}

// raw sends bytes that are no message.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (raw) Unmarshal(b []byte, v any) error {
	return proto.Unmarshal(b, v.(proto.Message))
}

func TestGRPCWrongContent(t *testing.T) {
	s, conn := openBoth(t)
	const method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	for name, c := range map[string]struct {
		body []byte
		want codes.Code
	}{
		"not protobuf": {[]byte("hello"), codes.InvalidArgument},
		"too large":    {make([]byte, MaxBody+1), codes.ResourceExhausted},
	} {
		err := conn.Invoke(t.Context(), method, c.body, new(collector.ExportTraceServiceResponse), grpc.ForceCodec(raw{})) //nolint:staticcheck // the plainer codec will do here
		if status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.Mark(); got.Bad != 1 || got.Requests != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	bomb := bytes.Repeat([]byte{0}, MaxBody+1)
	err := conn.Invoke(t.Context(), method, bomb, new(collector.ExportTraceServiceResponse), grpc.ForceCodec(raw{}), grpc.UseCompressor(gzip.Name)) //nolint:staticcheck // as above
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("bomb: %v", err)
	}
}

// The exporter of the OpenTelemetry SDK, as services use it.
func TestExporterOverGRPC(t *testing.T) {
	s, _ := openBoth(t)
	client := otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(s.Endpoint()), otlptracegrpc.WithInsecure(), otlptracegrpc.WithCompressor("gzip"))
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.UploadTraces(t.Context(), request("shop", chain(1)...).GetResourceSpans()); err != nil {
		t.Error(err)
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if spans, err := s.Spans(nil); err != nil || len(spans) != 3 || spans[0].Resource.Service != "shop" {
		t.Errorf("%v, %v", spans, err)
	}
}

// Close must not wait for a connection that has said nothing, or half of it.
func TestCloseWithSilentConnections(t *testing.T) {
	s := open(t, Options{GRPC: true})
	for _, said := range []string{"", "P"} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	accepted(t, s, body(chain(1)...)) // after them, so that they have been accepted
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(s.Endpoint()); err == nil {
		t.Error("it still listens")
	}
}
