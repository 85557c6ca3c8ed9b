package otlpgrpc_test

import (
	"context"
	"fmt"
	"net"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(server, &collector{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	exporter, err := otlpgrpc.New(otlpgrpc.WithEndpointURL("http://" + listener.Addr().String()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = exporter.Shutdown(context.Background()) }()

	// lean.NewTracerProvider(lean.WithExporter(exporter)) does this with every
	// batch; here is one without spans.
	request := []byte{0x0a, 0x00}
	rejected, err := exporter.Export(context.Background(), request, 0)
	fmt.Println(rejected, err)
	// Output: 0 <nil>
}
