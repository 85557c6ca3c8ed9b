package analysis

import (
	"fmt"
	"math"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/stats"
)

// unbounded stands for the share in a round in which the other tracer seemed to
// add nothing: greater than any other, so that such a round never makes a
// variant look cheaper than it is.
const unbounded = 1e6

// share fills a finding with the share that x adds to the baseline of what y adds,
// and says whether a target is met (0: there is none). It returns why it cannot.
func share(f *Finding, x, y, base byRound, other string, atMost float64) string {
	shares, most := byRound{}, math.Inf(-1) // most: of those with a bound
	for r, b := range base {
		one, hasX := x[r]
		other, hasY := y[r]
		switch {
		case !hasX || !hasY:
		case other > b:
			shares[r] = min((one-b)/(other-b), unbounded)
			most = max(most, shares[r])
		default:
			shares[r] = unbounded
		}
	}
	if len(shares) == 0 {
		return fmt.Sprintf("there is no round in which it, %s and the baseline count", Label(other))
	}
	e := stats.Interval(shares.list())
	if e.Median > most {
		return fmt.Sprintf("%s adds nothing in half of the rounds", Label(other))
	}
	if e.Hi > most { // a limit between two rounds, one of which has no bound, has none
		e.Hi = unbounded
	}
	f.Value, f.Against = &e, other
	f.Bound, f.Target = target(e, experiment.Claim{AtMost: atMost}, func(x float64) string { return fmt.Sprintf("%g", x) })
	return ""
}
