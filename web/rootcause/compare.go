package rootcause

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	repetitions = 1000 // of the bootstrap
	certainty   = 0.95 // of intervals and verdicts
	// The normal traces are those between these quantiles of the duration.
	normalFrom, normalTo = 0.25, 0.75
)

// Interval is an estimate with its 95% interval.
type Interval struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

// amount is what a trace spent in a column.
type amount struct {
	column int32
	ns     float64
}

// table is what there is to compare: traces from the slowest to the fastest, with what
// each spent in which column.
type table struct {
	share   float64 // which are slow, by requests
	weights []float64
	rows    [][]amount
	columns int
}

// means weighs the traces by v, and returns what slow and normal ones spent per column on
// average. A trace across a border counts in part, so that exactly the share is slow.
func (t *table) means(v, slow, normal []float64) {
	clear(slow)
	clear(normal)
	total := 0.0
	for _, w := range v {
		total += w
	}
	// From the slowest: quantile 1 - x of the duration is at x.
	slowTo, from, to := t.share*total, (1-normalTo)*total, (1-normalFrom)*total
	at := 0.0
	for i, w := range v {
		end := at + w
		if part := min(end, slowTo) - at; part > 0 {
			for _, a := range t.rows[i] {
				slow[a.column] += a.ns * part / slowTo
			}
		}
		if part := min(end, to) - max(at, from); part > 0 {
			for _, a := range t.rows[i] {
				normal[a.column] += a.ns * part / (to - from)
			}
		}
		if at = end; at >= to {
			break
		}
	}
}

// compared is the excess of slow traces by column: the estimates and those of each
// repetition.
type compared struct {
	slow, normal []float64
	excess       []float64
	repeated     [][]float64 // [repetition][column]
	tail         float64     // of the repetitions at each end, outside of an interval
}

// compare runs the bootstrap; n is how many slow traces there are, of equal weight. The
// same table gives the same result.
func (t *table) compare(n float64) *compared {
	c := &compared{slow: make([]float64, t.columns), normal: make([]float64, t.columns), tail: expanded(n)}
	t.means(t.weights, c.slow, c.normal)
	c.excess = difference(c.slow, c.normal)
	random := rand.New(rand.NewPCG(uint64(len(t.rows)), 2))
	v := make([]float64, len(t.weights))
	slow, normal := make([]float64, t.columns), make([]float64, t.columns)
	for range repetitions {
		for i, w := range t.weights {
			v[i] = w * random.ExpFloat64()
		}
		t.means(v, slow, normal)
		c.repeated = append(c.repeated, difference(slow, normal))
	}
	return c
}

func difference(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// expanded is the tail probability with which percentiles of a bootstrap hold a mean of n
// values as Student's interval does.
func expanded(n float64) float64 {
	const tail = (1 - certainty) / 2
	if n <= 2 {
		return 0
	}
	q := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(tail)
	return distuv.UnitNormal.CDF(q * math.Sqrt(n/(n-1)))
}

// interval is of a number that is computed from the excess by column.
func (c *compared) interval(of func(excess []float64) float64) Interval {
	values := make([]float64, len(c.repeated))
	for i, r := range c.repeated {
		values[i] = of(r)
	}
	slices.Sort(values)
	k := int(c.tail * float64(len(values)))
	at := of(c.excess)
	return Interval{at, min(at, values[k]), max(at, values[len(values)-1-k])}
}

// confidence is in which share of the repetitions something held.
func (c *compared) confidence(held func(excess []float64) bool) float64 {
	n := 0
	for _, r := range c.repeated {
		if held(r) {
			n++
		}
	}
	return float64(n) / float64(len(c.repeated))
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}
