package store

import buckets "github.com/tare-trace/tare/otel/histogram"

// histogram counts durations, weighted, in buckets that are linear within each
// power of two, as in HdrHistogram: 32 of them, so that the middle of a bucket
// is within 1/64 of every value in it. It takes any 64 bits. Its memory grows
// with the powers of two that occur: operations are many, and few of them need
// more than a handful.
type histogram struct {
	powers   [65 - bins]*[1 << bins]float64
	total    float64
	smallest uint64
	largest  uint64
}

// bins are the buckets: 1<<5 in each power of two.
const bins = buckets.Buckets(5)

func (h *histogram) add(v uint64, weight float64) {
	i := bins.Of(v)
	p := &h.powers[i>>bins]
	if *p == nil {
		*p = new([1 << bins]float64)
	}
	(*p)[i&(1<<bins-1)] += weight
	if h.total == 0 {
		h.smallest = v
	}
	h.total += weight
	h.smallest, h.largest = min(h.smallest, v), max(h.largest, v)
}

// quantile returns the value that the share q of the weight does not exceed; 0
// if nothing was added.
func (h *histogram) quantile(q float64) uint64 {
	if h.total == 0 {
		return 0
	}
	rank, sum := q*h.total, 0.0
	for power, p := range h.powers {
		if p == nil {
			continue
		}
		for sub, n := range p {
			// The sum of weights is not exact; what is lacking by a billionth is there.
			if sum += n; n > 0 && sum >= rank*(1-1e-9) {
				start, next := bins.Start(power<<bins+sub), bins.Start(power<<bins+sub+1)
				return min(max(start+(next-start)/2, h.smallest), h.largest)
			}
		}
	}
	return h.largest
}
