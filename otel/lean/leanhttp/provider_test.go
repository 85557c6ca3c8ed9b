package leanhttp_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/otel/lean"
)

// kept is an exporter that keeps spans.
type kept struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (k *kept) Export(_ context.Context, request []byte, _ int) (int, error) {
	var m collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(request, &m); err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range m.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			k.spans = append(k.spans, s.GetSpans()...)
		}
	}
	return 0, nil
}

func (*kept) Shutdown(context.Context) error { return nil }

// provider is lean's, with an exporter that keeps spans.
func provider(t *testing.T, s sdktrace.Sampler) (*lean.TracerProvider, func() []*tracepb.Span) {
	k := &kept{}
	tp := lean.NewTracerProvider(lean.WithExporter(k), lean.WithSampler(s))
	t.Cleanup(func() { assert.NoError(t, tp.Shutdown(context.Background())) })
	return tp, func() []*tracepb.Span {
		assert.NoError(t, tp.ForceFlush(context.Background()))
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.spans
	}
}

// discard is an exporter for benchmarks.
type discard struct{}

func (discard) Export(context.Context, []byte, int) (int, error) { return 0, nil }
func (discard) Shutdown(context.Context) error                   { return nil }
