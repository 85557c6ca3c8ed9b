package pressure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// refusing is an exporter of the SDK whose answer the test gives.
type refusing struct {
	sdktrace.SpanExporter
	answer func() error
}

func (r refusing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return r.answer() }

// The official SDK's batch processor behind a collector that refuses for a while, and then takes long.
func TestOfficialSDK(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	answer := func() error { return nil }
	e := NewExporter(refusing{tracetest.NewInMemoryExporter(), func() error { return answer() }})
	e.gauge.Now = func() time.Time { return now }
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
	defer func() { _ = p.Shutdown(context.Background()) }()
	exports := func(n int, want float64, f func() error) {
		t.Helper()
		answer = f
		for range n {
			_, span := p.Tracer("t").Start(context.Background(), "n")
			span.End()
			_ = p.ForceFlush(context.Background())
		}
		assert.Equal(t, want, e.Pressure())
	}
	fine := func() error { return nil }
	exports(2, 0, fine)
	exports(2, 0.75, func() error { return errors.New("429") })
	exports(2, 0.1875, fine)
	exports(7, 0, fine)
	exports(1, 0, func() error { return context.Canceled })
	exports(1, 0, func() error {
		now = now.Add(15 * time.Second)
		assert.Equal(t, 0.5, e.Pressure(), "in an export that has taken 15 s")
		return nil
	})
}
