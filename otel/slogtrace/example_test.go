package slogtrace_test

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/slogtrace"
)

func Example() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slogtrace.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))

	// What a tracer does when a span starts.
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 2}, TraceFlags: trace.FlagsSampled,
	}))
	log.InfoContext(ctx, "paid", "amount", 12)
	log.Info("started")
	// Output:
	// {"level":"INFO","msg":"paid","amount":12,"trace_id":"00000000000000000000000000000001","span_id":"0000000000000002"}
	// {"level":"INFO","msg":"started"}
}
