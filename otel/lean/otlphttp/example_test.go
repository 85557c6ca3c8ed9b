package otlphttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

func Example() {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Content-Type"), len(body))
	}))
	defer collector.Close()

	exporter, err := otlphttp.New(
		otlphttp.WithEndpointURL(collector.URL+"/v1/traces"),
		otlphttp.WithTimeout(5*time.Second),
	)
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
	// Output:
	// POST /v1/traces application/x-protobuf 2
	// 0 <nil>
}
