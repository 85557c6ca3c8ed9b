//go:build !race

package consistent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func TestDecisionsAllocateNothing(t *testing.T) {
	s := ParentBased(NewRate(0.5))
	id := idOf(Randomness(Never - 1))
	remote := func(flags trace.TraceFlags, state string) context.Context {
		return trace.ContextWithRemoteSpanContext(context.Background(), parentOf(t, id, flags, state))
	}
	for name, ctx := range map[string]context.Context{
		"root": context.Background(), "sampled": remote(1, ""), "dropped": remote(0, "a=b"),
		"sampled, th": remote(1, "a=b,ot=rv:ffffffffffffff;th:8"),
	} {
		for _, id := range []trace.TraceID{id, idOf(0)} {
			p := sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id}
			assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { s.ShouldSample(p) }), "%s: allocations", name)
		}
	}
}
