package stats

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		of              Estimate
		atMost, atLeast string // 1
	}{
		{Estimate{}, NotMeasured, NotMeasured},
		{Estimate{Median: 1, Lo: 1, Hi: 1, N: 5}, NotResolved, NotResolved}, // too few rounds
		{Estimate{Median: 1, Lo: 1, Hi: 1, N: 6}, Met, Met},
		{Estimate{Median: 0.9, Lo: 0.8, Hi: 1, N: 6}, Met, NotResolved},
		{Estimate{Median: 1.1, Lo: 1, Hi: 1.3, N: 6}, NotResolved, Met},
		{Estimate{Median: 1.2, Lo: 1.1, Hi: 1.3, N: 6}, Missed, Met},
		{Estimate{Median: 0.9, Lo: 0.8, Hi: 0.95, N: 6}, Met, Missed},
		{Estimate{Median: 1, Lo: 0.9, Hi: 1.1, N: 6}, NotResolved, NotResolved},
	} {
		assert.Equal(t, c.atMost, AtMost(c.of, 1), "%+v at most 1", c.of)
		assert.Equal(t, c.atLeast, AtLeast(c.of, 1), "%+v at least 1", c.of)
	}
}
