package keep_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/keep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeline is an SDK provider with keep in front of the SDK's span recorder.
type pipeline struct {
	*sdktrace.TracerProvider
	processor *keep.Processor
	recorder  *tracetest.SpanRecorder
	tracer    trace.Tracer
}

func newPipeline(t testing.TB, inner sdktrace.Sampler, policy keep.Policy) *pipeline {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	processor, err := keep.NewProcessor(recorder, policy)
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(keep.Sampler(inner)),
		sdktrace.WithSpanProcessor(processor),
	)
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.Background())) })
	return &pipeline{provider, processor, recorder, provider.Tracer("test")}
}

// names returns the names of the exported spans, in order.
func (p *pipeline) names() string {
	var names []string
	for _, s := range p.recorder.Ended() {
		names = append(names, s.Name())
	}
	return strings.Join(names, " ")
}

func fail(s trace.Span) { s.SetStatus(codes.Error, "it failed") }

// remoteParent returns a context as a propagator makes it.
func remoteParent(id byte, sampled bool, state string) context.Context {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID{15: id},
		SpanID:     trace.SpanID{7: id},
		TraceFlags: trace.TraceFlags(0).WithSampled(sampled),
		TraceState: ts,
		Remote:     true,
	}))
}

var errBoom = errors.New("boom")
