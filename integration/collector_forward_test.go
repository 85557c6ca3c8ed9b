package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/internal/testkit"
)

// forwarding is a collector that only passes on: OTLP in at both protocols, OTLP
// out. What comes out is what came in.
func forwarding(grpc, http, to string) string {
	return fmt.Sprintf(`
receivers:
  otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}
processors:
  memory_limiter: {check_interval: 1s, limit_mib: 1024}
exporters:
  otlp_grpc: {endpoint: %q, tls: {insecure: true}, sending_queue: {queue_size: 10000}}
service:
  pipelines:
    traces: {receivers: [otlp], processors: [memory_limiter], exporters: [otlp_grpc]}`, grpc, http, to)
}

// The official exporters of the SDK: what they send through the collector is what
// they send without it.
func TestCollectorTakesOfficialExporters(t *testing.T) {
	t.Parallel()
	through, direct := newGRPCSink(t), newGRPCSink(t)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	collect(t, forwarding(grpcAddr, httpAddr, through.address))

	exporters := map[string]otlptrace.Client{
		"gRPC":            otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(grpcAddr), otlptracegrpc.WithInsecure()),
		"gRPC compressed": otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(grpcAddr), otlptracegrpc.WithInsecure(), otlptracegrpc.WithCompressor("gzip")),
		"HTTP":            otlptracehttp.NewClient(otlptracehttp.WithEndpoint(httpAddr), otlptracehttp.WithInsecure()),
		"HTTP compressed": otlptracehttp.NewClient(otlptracehttp.WithEndpoint(httpAddr), otlptracehttp.WithInsecure(), otlptracehttp.WithCompression(otlptracehttp.GzipCompression)),
	}
	const requests = 50
	for name, client := range exporters {
		provider := sdktrace.NewTracerProvider(
			sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", name))),
			sdktrace.WithBatcher(started(t, client)),
			sdktrace.WithBatcher(started(t, otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(direct.address), otlptracegrpc.WithInsecure()))),
		)
		tracer := provider.Tracer("official", oteltrace.WithInstrumentationVersion("1"))
		for i := range requests {
			ctx, root := tracer.Start(t.Context(), "GET /", oteltrace.WithSpanKind(oteltrace.SpanKindServer))
			_, call := tracer.Start(ctx, "SELECT", oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithLinks(oteltrace.LinkFromContext(ctx)))
			call.SetAttributes(attribute.StringSlice("db.tables", []string{"a", "b"}), attribute.Int("row", i), attribute.Float64("x", .5))
			call.RecordError(context.DeadlineExceeded)
			call.SetStatus(codes.Error, "late")
			call.End()
			root.End()
		}
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n, want := direct.count(), len(exporters)*requests*2; n != want {
		t.Fatalf("%d spans came without the collector, want %d", n, want)
	}
	through.wantSame(t, direct.spans)
	if through.twice > 0 {
		t.Errorf("%d spans came twice", through.twice)
	}
}

func started(t *testing.T, c otlptrace.Client) *otlptrace.Exporter {
	t.Helper()
	e, err := otlptrace.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An unmodified OpenTelemetry Collector sends to ours, and another one takes what
// ours sends.
func TestCollectorBetweenPlainOnes(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	var first, firstHTTP, ours, oursHTTP, last, lastHTTP string
	for _, a := range []*string{&first, &firstHTTP, &ours, &oursHTTP, &last, &lastHTTP} {
		*a = loopback(testkit.FreePort(t))
	}
	collectPlain(t, forwarding(last, lastHTTP, sink.address))
	middle := collect(t, forwarding(ours, oursHTTP, last))
	collectPlain(t, forwarding(first, firstHTTP, ours))

	client := dialOTLP(t, first, nil)
	sent := map[spanKey][]byte{}
	for i := range 20 {
		for key, b := range deliver(t, client, someTraces(uint64(i)+1, 25, 10)) {
			sent[key] = b
		}
	}
	sink.wantSame(t, sent)
	testkit.Until(t, deadline, "the collector counted what it passed on", func() bool {
		return middle.metric("otelcol_receiver_accepted_spans") == 5000 && middle.metric("otelcol_exporter_sent_spans") == 5000
	})
}

// Clocks that are wrong, names that are long and times that lie are the sender's:
// they pass as they are.
func TestCollectorPassesOddSpans(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	limits := "extensions:\n  tare_limits: {value: 4194304, attributes: 20000}\nservice:\n  extensions: [tare_limits]"
	collect(t, strings.Replace(forwarding(grpcAddr, httpAddr, sink.address), "service:", limits, 1))

	odd := someTraces(7, 4, 2)
	spans := odd.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	giant := make([]byte, 3<<20)
	for i := range giant {
		giant[i] = byte('a' + i%26)
	}
	spans.At(0).Attributes().PutStr("body", string(giant))
	spans.At(1).SetStartTimestamp(0)
	spans.At(1).SetEndTimestamp(1 << 63)
	spans.At(2).SetEndTimestamp(spans.At(2).StartTimestamp() - 1e9)
	spans.At(3).SetName("")
	for i := range 10000 {
		spans.At(3).Attributes().PutInt(fmt.Sprint("key", i), int64(i))
	}
	sink.wantSame(t, deliver(t, dialOTLP(t, grpcAddr, nil), odd))
}

// A collector that is stopped hands on what it has taken.
func TestCollectorStopsWithoutLoss(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	d := collect(t, forwarding(grpcAddr, httpAddr, sink.address))
	sent := deliver(t, dialOTLP(t, grpcAddr, nil), someTraces(1, 500, 10), someTraces(2, 500, 10))
	begin := time.Now()
	d.Stop()
	t.Logf("stopped after %v", time.Since(begin))
	sink.wantSame(t, sent)
}
