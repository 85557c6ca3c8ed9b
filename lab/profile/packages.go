package profile

import (
	"maps"
	"slices"
	"time"

	"github.com/tare-trace/tare/lab/record"
)

// NoFunction stands for the package of functions that are not written in Go,
// and of names without a package.
const NoFunction = "(no Go function)"

// Packages returns the CPU time that each package's own functions used, without
// the functions that they called, in µs per request, by the package's path.
// Their sum is the CPU time of the profile. Without requests there is nothing
// to divide by: nil.
func Packages(p *Profile, requests uint64) []record.Share {
	if requests == 0 {
		return nil
	}
	sums := map[string]time.Duration{}
	for _, s := range p.raw.Sample {
		path := ""
		if names := stack(s); len(names) > 0 {
			path, _ = split(names[0])
		}
		if path == "" {
			path = NoFunction
		}
		sums[path] += p.cpu(s)
	}
	shares := make([]record.Share, 0, len(sums))
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		shares = append(shares, record.Share{Category: path, Micros: micros(sums[path], requests)})
	}
	return shares
}
