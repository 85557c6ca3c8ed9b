//go:build !race

package keep_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/keep"
	"github.com/tare-trace/tare/otel/rule"
)

// Recording allocates in the SDK; buffering and dropping does not. Under the
// race detector allocations are other ones.
func TestNoAllocations(t *testing.T) {
	policy := keep.Policy{
		Errors: true, ServerErrors: true, SlowerThan: time.Hour,
		Learn: keep.Learn{Quantile: 0.9999},
		Rules: []*rule.Rule{rule.MustCompile(rule.Spec{Attributes: map[string]string{"user.tier": "gold"}})},
	}
	measure := func(processor sdktrace.SpanProcessor, children int) float64 {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(keep.Sampler(sdktrace.NeverSample())), sdktrace.WithSpanProcessor(processor))
		defer provider.Shutdown(context.Background()) //nolint:errcheck // nothing to shut down behind it
		tracer := provider.Tracer("test")
		for range 10_000 { // fills free lists and rings
			request(tracer, children, false)
		}
		return testing.AllocsPerRun(2000, func() { request(tracer, children, false) })
	}
	for _, children := range []int{0, 5} {
		processor, err := keep.NewProcessor(discard{}, policy)
		require.NoError(t, err)
		if recorded, kept := measure(discard{}, children), measure(processor, children); kept > recorded {
			t.Errorf("%d children: %v allocations per dropped trace, %v of them in the SDK", children, kept, recorded)
		}
	}
}
