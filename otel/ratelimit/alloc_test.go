//go:build !race

package ratelimit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func TestDecisionsAllocateNothing(t *testing.T) {
	for _, m := range []Mode{Leaky, Consistent} {
		for name, ctx := range map[string]context.Context{
			"root": context.Background(), "sampled": remote(t, 1, "ot=th:0"), "dropped": remote(t, 0, ""),
		} {
			var now int64
			s := at(&now, 5, WithMode(m))
			p := sdktrace.SamplingParameters{ParentContext: ctx, TraceID: trace.TraceID{1}}
			assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { s.ShouldSample(p) }), "%v, %s: allocations", m, name)
		}
	}
}
