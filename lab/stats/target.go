package stats

import "fmt"

// AtMost says in words whether an estimate meets an upper bound: "met" or "missed"
// need the whole interval on one side; else the median tells which way it leans.
func AtMost(e Estimate, bound float64) string {
	return judged(e, e.Hi <= bound, e.Lo > bound, e.Median <= bound)
}

// AtLeast is AtMost of a lower bound.
func AtLeast(e Estimate, bound float64) string {
	return judged(e, e.Lo >= bound, e.Hi < bound, e.Median >= bound)
}

func judged(e Estimate, met, missed, leans bool) string {
	switch {
	case e.N == 0:
		return "not measured"
	case e.N < MinSamples:
		return fmt.Sprintf("too few rounds to tell, at least %d are needed", MinSamples)
	case met:
		return "met"
	case missed:
		return "missed"
	case leans:
		return "met by the median, not by the whole interval"
	}
	return "missed by the median, not by the whole interval"
}
