package profile

import (
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
