package stats

// What became of a target.
const (
	Met         = "met"
	Missed      = "missed"
	NotResolved = "not resolved" // by as many rounds as there were
	NotMeasured = "not measured"
)

// AtMost says whether an estimate meets an upper bound: Met and Missed need the
// whole interval on one side, and at least MinSamples values.
func AtMost(e Estimate, bound float64) string {
	return judged(e, e.Hi <= bound, e.Lo > bound)
}

// AtLeast is AtMost of a lower bound.
func AtLeast(e Estimate, bound float64) string {
	return judged(e, e.Lo >= bound, e.Hi < bound)
}

func judged(e Estimate, met, missed bool) string {
	switch {
	case e.N == 0:
		return NotMeasured
	case e.N < MinSamples:
		return NotResolved
	case met:
		return Met
	case missed:
		return Missed
	}
	return NotResolved
}
