package otlpgrpc_test

import (
	"context"
	"net"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// forget is a server's codec that decodes nothing, so that the numbers are those
// of clients and of gRPC.
type forget struct{}

func (forget) Name() string                         { return "proto" }
func (forget) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (forget) Unmarshal(mem.BufferSlice, any) error { return nil }

// BenchmarkExport sends 175 kB (512 spans: the SDK's batch) over loopback to a
// server that reads and forgets them; its work is in the numbers. The official
// exporter starts from messages, which it marshals.
func BenchmarkExport(b *testing.B) {
	const spans = 512
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(forget{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(nil); err != nil {
			return err
		}
		return stream.SendMsg(nil)
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	url := "http://" + listener.Addr().String()
	request := otlptest.Request(b, spans)
	for name, compression := range map[string]otlpgrpc.Compression{"plain": otlpgrpc.NoCompression, "gzip": otlpgrpc.GzipCompression} {
		b.Run("lean/"+name, func(b *testing.B) {
			e := newExporter(b, otlpgrpc.WithEndpointURL(url), otlpgrpc.WithCompression(compression))
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Export(context.Background(), request, spans); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("official/"+name, func(b *testing.B) {
			opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(url)}
			if compression == otlpgrpc.GzipCompression {
				opts = append(opts, otlptracegrpc.WithCompressor("gzip"))
			}
			client := otlptracegrpc.NewClient(opts...)
			if err := client.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = client.Stop(context.Background()) }()
			messages := otlptest.ResourceSpans(spans)
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				if err := client.UploadTraces(context.Background(), messages); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
