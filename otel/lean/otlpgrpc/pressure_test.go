package otlpgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

// RESOURCE_EXHAUSTED without RetryInfo is not repeated, and a refusal all the same; a request that the
// receiver cannot read is none.
func TestPressure(t *testing.T) {
	var code atomic.Uint32
	code.Store(uint32(codes.ResourceExhausted))
	c := newCollector(t, func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		return &coltracepb.ExportTraceServiceResponse{}, status.Error(codes.Code(code.Load()), "of the test")
	})
	e, err := otlpgrpc.New(otlpgrpc.WithEndpoint(c.address), otlpgrpc.WithInsecure(), otlpgrpc.WithRetry(otlpgrpc.RetryConfig{}))
	require.NoError(t, err)
	defer func() { _ = e.Shutdown(context.Background()) }()
	request := []byte{0x0a, 0x00} // one ResourceSpans, empty
	for range 2 {
		if _, err := e.Export(t.Context(), request, 1); status.Code(err) != codes.Code(code.Load()) {
			t.Fatal(err)
		}
	}
	refused := e.Pressure()
	if refused < 0.05 || refused > 0.75 { // it falls from 0.75, to half in 10 s
		t.Errorf("%v after two refusals", refused)
	}
	code.Store(uint32(codes.InvalidArgument))
	if _, err := e.Export(t.Context(), request, 1); status.Code(err) != codes.Code(code.Load()) || e.Pressure() > refused {
		t.Errorf("%v, and the pressure is %v", err, e.Pressure())
	}
	code.Store(uint32(codes.OK))
	for range 10 {
		if _, err := e.Export(t.Context(), request, 1); err != nil {
			t.Fatal(err)
		}
	}
	assert.LessOrEqual(t, e.Pressure(), 0.01, "after ten exports were accepted")
}
