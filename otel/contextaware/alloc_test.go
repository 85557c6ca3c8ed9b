//go:build !race

package contextaware

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDecisionsAllocateNothing(t *testing.T) {
	plain := mustParse(t, documented)
	asking := mustParse(t, documented, WithProbability(func(context.Context) (float64, bool) { return 0.3, true }))
	for name, ctx := range map[string]context.Context{
		"root":    context.Background(),
		"baggage": withBaggage(context.Background(), t, "user.id", "42"),
		"sampled": withParent(context.Background(), t, 1, "ot=th:0"),
		"dropped": withParent(context.Background(), t, 0, ""),
	} {
		for _, s := range []*Sampler{plain, asking} {
			p := benchParameters(ctx)
			assert.EqualValues(t, 0, testing.AllocsPerRun(100, func() { s.ShouldSample(p) }), "%s: allocations", name)
		}
	}
}
