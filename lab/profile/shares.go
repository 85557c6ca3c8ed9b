package profile

import (
	"time"

	"github.com/tare-trace/tare/lab/record"
)

// Shares puts every sample into one category and returns all Categories, in their
// order, with the CPU time of each in µs per request. Their sum is the CPU time of
// the profile. Without requests there is nothing to divide by: nil.
func Shares(p *Profile, requests uint64) []record.Share {
	if requests == 0 {
		return nil
	}
	sums := map[string]time.Duration{}
	for _, s := range p.raw.Sample {
		sums[categoryOf(stack(s))] += p.cpu(s)
	}
	shares := make([]record.Share, len(Categories))
	for i, c := range Categories {
		shares[i] = record.Share{Category: c, Micros: micros(sums[c], requests)}
	}
	return shares
}

func micros(d time.Duration, requests uint64) float64 {
	return float64(d) / float64(time.Microsecond) / float64(requests)
}
