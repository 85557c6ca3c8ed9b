package stats

import "testing"

func TestAtMost(t *testing.T) {
	for want, e := range map[string]Estimate{
		"not measured": {},
		"too few rounds to tell, at least 6 are needed": {Median: 1, Lo: 1, Hi: 1, N: 5},
		"met":    {Median: 0.9, Lo: 0.8, Hi: 1, N: 6},
		"missed": {Median: 1.2, Lo: 1.1, Hi: 1.3, N: 6},
		"met by the median, not by the whole interval":    {Median: 1, Lo: 0.9, Hi: 1.1, N: 6},
		"missed by the median, not by the whole interval": {Median: 1.1, Lo: 1, Hi: 1.2, N: 6},
	} {
		if got := AtMost(e, 1); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for want, e := range map[string]Estimate{
		"not measured": {},
		"met":          {Median: 1.1, Lo: 1, Hi: 1.3, N: 6},
		"missed":       {Median: 0.9, Lo: 0.8, Hi: 0.95, N: 6},
		"met by the median, not by the whole interval":    {Median: 1, Lo: 0.9, Hi: 1.1, N: 6},
		"missed by the median, not by the whole interval": {Median: 0.9, Lo: 0.8, Hi: 1, N: 6},
	} {
		if got := AtLeast(e, 1); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
