package lean

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

func TestMetrics(t *testing.T) {
	handled(t)
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	fails, gate := true, make(chan struct{})
	s := &sink{before: func(context.Context, int) (int, error) {
		<-gate
		if fails {
			return 0, errors.New("broken")
		}
		return 0, nil
	}}
	p := NewTracerProvider(WithExporter(s), WithMeterProvider(meters), WithSampler(odd{}), WithBatch(Batch{MaxQueueSize: 5}))
	tracer := p.Tracer("t")
	ctx, open := tracer.Start(t.Context(), "nn") // sampled, and still open
	_, s1 := tracer.Start(ctx, "n")              // recorded only
	s1.End()
	_, _ = tracer.Start(ctx, "nnn") // dropped
	for range 7 {
		_, s := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), open.SpanContext()), "nn")
		s.End()
	}
	close(gate)
	_ = p.ForceFlush(t.Context())
	fails = false
	_, s2 := tracer.Start(t.Context(), "nn")
	s2.End()
	_ = p.ForceFlush(t.Context())
	_, s3 := tracer.Start(t.Context(), "nn")
	s3.End()

	got := map[string]int64{}
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				name := m.Name
				for _, k := range []attribute.Key{"otel.span.parent.origin", "otel.span.sampling_result", "error.type"} {
					if v, ok := point.Attributes.Value(k); ok {
						name += " " + v.AsString()
					}
				}
				if point.Value != 0 {
					got[name] += point.Value
				}
			}
		}
	}
	want := map[string]int64{
		"otel.sdk.span.started none RECORD_AND_SAMPLE":   3,
		"otel.sdk.span.started remote RECORD_AND_SAMPLE": 7,
		"otel.sdk.span.started local RECORD_ONLY":        1,
		"otel.sdk.span.started local DROP":               1,
		"otel.sdk.span.live RECORD_AND_SAMPLE":           1,
		"otel.sdk.processor.span.processed":              6,
		"otel.sdk.processor.span.processed queue_full":   2,
		"otel.sdk.exporter.span.exported":                1,
		"otel.sdk.exporter.span.exported _OTHER":         5,
		"otel.sdk.processor.span.queue.size":             1,
		"otel.sdk.processor.span.queue.capacity":         5,
	}
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
	open.End()
	require.NoError(t, p.Shutdown(t.Context()))
	data = metricdata.ResourceMetrics{}
	if err := reader.Collect(t.Context(), &data); err != nil || len(data.ScopeMetrics) > 0 && len(data.ScopeMetrics[0].Metrics) > 0 {
		t.Errorf("after Shutdown: %v, %v", data, err)
	}
	require.NoError(t, meters.Shutdown(t.Context()))
}
