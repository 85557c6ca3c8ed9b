package keep_test

import (
	"context"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/consistent"
	"github.com/tare-trace/tare/otel/keep"
)

func TestMetrics(t *testing.T) {
	p := newPipeline(t, consistent.ParentBased(consistent.NewRate(0)), keep.Policy{Errors: true, MaxSpansPerTrace: 1})
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // a manual reader
	registration, err := p.processor.Metrics(provider.Meter("test"))
	require.NoError(t, err)
	defer registration.Unregister() //nolint:errcheck // the test ends

	request(p.tracer, 3, true)  // 2 of 3 children are too many
	request(p.tracer, 1, false) // dropped
	_, passed := p.tracer.Start(remoteParent(1, true, ""), "passed")
	passed.End()
	ctx, open := p.tracer.Start(context.Background(), "open")
	_, waiting := p.tracer.Start(ctx, "waiting")
	waiting.End()
	defer open.End()

	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	got := map[string]int64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		for _, d := range m.Data.(metricdata.Sum[int64]).DataPoints {
			key := m.Name
			if d.Attributes.Len() > 0 {
				key += " " + d.Attributes.Encoded(attribute.DefaultEncoder())
			}
			if d.Value != 0 && m.Name != "keep.buffer.size" {
				got[key] = d.Value
			}
		}
	}
	want := map[string]int64{
		"keep.traces.open":                        1,
		"keep.buffer.spans":                       1,
		"keep.traces.kept reason=failed":          1,
		"keep.traces.partial":                     1,
		"keep.traces.dropped cause=unwanted":      1,
		"keep.spans.exported policy=head":         1,
		"keep.spans.exported policy=keep":         2,
		"keep.spans.dropped cause=unwanted":       2,
		"keep.spans.dropped cause=too many spans": 2,
	}
	for key, n := range want {
		assert.Equal(t, n, got[key], key)
		delete(got, key)
	}
	assert.Zero(t, len(got), "more was reported: %v", got)
}
