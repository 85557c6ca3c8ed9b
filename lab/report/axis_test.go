package report

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"gonum.org/v1/plot"
)

func TestTicksAreRoundNumbers(t *testing.T) {
	for _, c := range []struct {
		lo, hi  float64
		percent bool
		want    string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 0.0042, false, "0.000 0.001 0.002 0.003 0.004"},
		{-12, 31, false, "−10 0 10 20 30"},
		{-0.07, 0.24, true, "0% +10% +20%"},
		{-0.004, 0.011, true, "0.0% +0.5% +1.0%"},
		{0, 25000, false, "0 5000 10000 15000 20000 25000"},
	} {
		var labels []string
		for _, tick := range (yTicks{c.percent}).Ticks(c.lo, c.hi) {
			labels = append(labels, tick.Label)
			if tick.Value < c.lo-1e-9 || tick.Value > c.hi*(1+1e-6) {
				t.Errorf("%v is outside %v to %v", tick.Value, c.lo, c.hi)
			}
		}
		assert.Equal(t, c.want, strings.Join(labels, " "), "%v to %v", c.lo, c.hi)
	}
	assert.EqualValues(t, 1, niceStep(math.NaN()), "a step")
}

// Labels of rates must not run into each other, on either scale.
func TestRateLabelsHaveRoom(t *testing.T) {
	rates := []float64{0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 1, 1}
	for name, scale := range map[string]plot.Normalizer{"linear": plot.LinearScale{}, "log": plot.LogScale{}} {
		ticks := xTicks(rates, "rate", scale, 220)
		assert.Len(t, ticks, 7, "%s: ticks", name)
		assert.Equal(t, "100%", ticks[0].Label, "%s: label of the greatest", name)
		sty := lettering(11, ink, false)
		right := math.Inf(1)
		shown := 0
		for _, tick := range ticks {
			if tick.Label == "" {
				continue
			}
			shown++
			at := 220 * scale.Normalize(0.001, 1, tick.Value)
			half := float64(sty.Width(tick.Label)) / 2
			assert.LessOrEqual(t, at+half, right, "%s: %s overlaps the one right of it", name, tick.Label)
			right = at - half
		}
		if shown < 4 {
			t.Errorf("%s: only %d labels", name, shown)
		}
	}
}
