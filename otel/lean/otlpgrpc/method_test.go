package otlpgrpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// Another signal's service is called by its name.
func TestMethod(t *testing.T) {
	for _, bad := range []string{"", "a", "/a", "a/b", "//b", "/a/"} {
		if _, err := otlpgrpc.New(otlpgrpc.WithMethod(bad)); err == nil {
			t.Errorf("%q is no method", bad)
		}
	}
	c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		return &coltracepb.ExportTraceServiceResponse{}, nil
	})
	for method, want := range map[string]bool{
		"/opentelemetry.proto.collector.trace.v1.TraceService/Export":     true,
		"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": false, // this collector has none
	} {
		e, err := otlpgrpc.New(otlpgrpc.WithEndpointURL("http://"+c.address), otlpgrpc.WithMethod(method), otlpgrpc.WithRetry(otlpgrpc.RetryConfig{}))
		require.NoError(t, err)
		if _, err := e.Export(t.Context(), []byte{0x0a, 0}, 0); (err == nil) != want {
			t.Errorf("%s: %v", method, err)
		}
		assert.NoError(t, e.Shutdown(t.Context()))
	}
}
