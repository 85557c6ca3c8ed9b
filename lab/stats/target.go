package stats

import "fmt"

// AtMost says in words whether an estimate meets an upper bound: "met" or "missed"
// need the whole interval on one side; else the median tells which way it leans.
func AtMost(e Estimate, bound float64) string {
	switch {
	case e.N == 0:
		return "not measured"
	case e.N < MinSamples:
		return fmt.Sprintf("too few rounds to tell, at least %d are needed", MinSamples)
	case e.Hi <= bound:
		return "met"
	case e.Lo > bound:
		return "missed"
	case e.Median <= bound:
		return "met by the median, not by the whole interval"
	}
	return "missed by the median, not by the whole interval"
}
