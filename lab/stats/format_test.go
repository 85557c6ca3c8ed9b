package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEstimateForPeople(t *testing.T) {
	for _, c := range []struct {
		e    Estimate
		want string
	}{
		{Estimate{Median: 1.07412, Lo: 1.0499, Hi: 1.0921, N: 14}, "1.074 (1.050–1.092, n=14)"},
		{Estimate{Median: 12345.6, Lo: 12001, Hi: 12811, N: 14}, "12350 (12000–12810, n=14)"},
		{Estimate{Median: 104.4, Lo: 101.5, Hi: 108.5, N: 7}, "104.4 (101.5–108.5, n=7)"},
		{Estimate{Median: -0.5, Lo: -1.25, Hi: 0.001, N: 10}, "-0.5 (-1.2 to 0.0, n=10)"},
		{Estimate{Median: 0.0004, Lo: -0.004, Hi: 0.005, N: 10}, "0.0004 (-0.0040 to 0.0050, n=10)"},
		{Estimate{Median: 2, Lo: 2, Hi: 2, N: 7}, "2.000 (2.000–2.000, n=7)"},
		{Estimate{N: 7}, "0 (0–0, n=7)"},
		{Estimate{Median: 3e-12, Lo: 2.5e-12, Hi: 3.5e-12, N: 7}, "3.0e-12 (2.5e-12–3.5e-12, n=7)"},
		{Estimate{Median: 3e15, Lo: 2e15, Hi: 4e15, N: 7}, "3.0e+15 (2.0e+15–4.0e+15, n=7)"},
		{Estimate{Median: 1.5, Lo: 1, Hi: 2, N: 2, Warning: "need >= 6 pairs"}, "1.5 (1.0–2.0, n=2; need >= 6 pairs)"},
		{Estimate{Warning: "need >= 6 pairs"}, "no estimate (n=0; need >= 6 pairs)"},
		{Estimate{}, "no estimate (n=0)"},
	} {
		assert.Equal(t, c.want, c.e.String(), "%#v", c.e)
	}
	assert.Equal(t, "1.00 (0.90–1.10, n=6)", fmt.Sprint(Ratio{Median: 1, Lo: 0.9, Hi: 1.1, N: 6}))
	for _, e := range []Estimate{
		{Median: 0, Lo: -math.MaxFloat64, Hi: math.MaxFloat64, N: 6},
		{Median: math.SmallestNonzeroFloat64, Lo: 0, Hi: 1e-320, N: 6},
		{Median: 1, Lo: math.Nextafter(1, 0), Hi: math.Nextafter(1, 2), N: 6},
	} {
		if s := e.String(); len(s) == 0 || len(s) > 120 {
			t.Errorf("%#v: %q", e, s)
		}
	}
}

// Programs read estimates by these names; String is for people only.
func TestEstimateAsJSON(t *testing.T) {
	got, err := json.Marshal(Estimate{Median: 1.5, Lo: 1, Hi: 2, N: 6})
	if err != nil || string(got) != `{"median":1.5,"lo":1,"hi":2,"n":6}` {
		t.Errorf("%s, %v", got, err)
	}
}
