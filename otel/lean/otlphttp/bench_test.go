package otlphttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlphttp"
)

// BenchmarkExport sends 175 kB (512 spans: the SDK's batch) over loopback to a
// server that reads and forgets them; its work is in the numbers. The official
// exporter starts from messages, which it marshals.
func BenchmarkExport(b *testing.B) {
	const spans = 512
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	request := otlptest.Request(b, spans)
	for name, compression := range map[string]otlphttp.Compression{"plain": otlphttp.NoCompression, "gzip": otlphttp.GzipCompression} {
		b.Run("lean/"+name, func(b *testing.B) {
			e := newExporter(b, otlphttp.WithEndpointURL(server.URL), otlphttp.WithCompression(compression))
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Export(context.Background(), request, spans); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("official/"+name, func(b *testing.B) {
			client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(server.URL), otlptracehttp.WithCompression(otlptracehttp.Compression(compression)))
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
