package profile

import (
	"slices"
	"strings"
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

// Part is the share of the CPU time that a category has, 0…1.
func Part(shares []record.Share, category string) float64 {
	var all, of float64
	for _, s := range shares {
		all += s.Micros
		if s.Category == category {
			of += s.Micros
		}
	}
	if all == 0 {
		return 0
	}
	return of / all
}

// BatchProcessor is the function whose goroutine batches and exports the spans of the OpenTelemetry SDK.
const BatchProcessor = "go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessor"

// Below is the share of the CPU time, 0…1, whose stacks have the function or one that it contains, as a flame graph shows it.
func (p *Profile) Below(function string) float64 {
	var all, below time.Duration
	for _, s := range p.raw.Sample {
		cpu := p.cpu(s)
		all += cpu
		if slices.ContainsFunc(stack(s), func(name string) bool {
			rest, ok := strings.CutPrefix(name, function)
			return ok && (rest == "" || rest[0] == '.')
		}) {
			below += cpu
		}
	}
	if all == 0 {
		return 0
	}
	return float64(below) / float64(all)
}

func micros(d time.Duration, requests uint64) float64 {
	return float64(d) / float64(time.Microsecond) / float64(requests)
}
