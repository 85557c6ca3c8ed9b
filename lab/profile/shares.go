package profile

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tare-trace/tare/lab/record"
)

// Shares puts every sample into one category and returns all Categories, in their
// order, with the CPU time of each in µs per request. Their sum is the CPU time of
// the profile. Without requests there is nothing to divide by: nil.
func Shares(p *Profile, requests uint64, options ...Option) []record.Share {
	if requests == 0 {
		return nil
	}
	r := newRules(options)
	sums := map[string]time.Duration{}
	for _, s := range p.raw.Sample {
		sums[r.of(stack(s))] += p.cpu(s)
	}
	names := Categories
	if _, known := sums[r.transports]; known && !slices.Contains(names, r.transports) {
		names = append(slices.Clone(names), r.transports)
	}
	shares := make([]record.Share, len(names))
	for i, c := range names {
		shares[i] = record.Share{Category: c, Micros: micros(sums[c], requests)}
	}
	return shares
}

func micros(d time.Duration, requests uint64) float64 {
	return float64(d) / float64(time.Microsecond) / float64(requests)
}

// Delta is what a category costs more than in the baseline.
type Delta struct {
	Category string
	Micros   float64 // per request; negative: it costs less
	// Share of the sum of all deltas. The shares add up to 1, some may be
	// negative. 0 if nothing was added in sum.
	Share float64
}

// Diff compares two runs by category; one that is missing on a side is 0 there. The
// greatest comes first.
func Diff(base, variant []record.Share) []Delta {
	added := map[string]float64{}
	for _, s := range variant {
		added[s.Category] += s.Micros
	}
	for _, s := range base {
		added[s.Category] -= s.Micros
	}
	var total float64
	deltas := make([]Delta, 0, len(added))
	for c, m := range added {
		deltas = append(deltas, Delta{Category: c, Micros: m})
	}
	// Sorted before they are summed: the sum must not depend on a map's order.
	slices.SortFunc(deltas, func(a, b Delta) int {
		return cmp.Or(cmp.Compare(b.Micros, a.Micros), cmp.Compare(a.Category, b.Category))
	})
	for _, d := range deltas {
		total += d.Micros
	}
	if total > 0 && !math.IsInf(total, 0) {
		for i := range deltas {
			deltas[i].Share = deltas[i].Micros / total
		}
	}
	return deltas
}
