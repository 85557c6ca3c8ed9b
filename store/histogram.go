package store

import (
	"math/bits"
)

// histogram counts durations, weighted, in buckets that are linear within each
// power of two, as in HdrHistogram: 32 of them, so that the middle of a bucket
// is within 1/64 of every value in it. It takes any 64 bits. Its memory grows
// with the powers of two that occur: operations are many, and few of them need
// more than a handful.
type histogram struct {
	powers   [65 - subBits]*[1 << subBits]float64
	total    float64
	smallest uint64
	largest  uint64
}

// subBits is log2 of the buckets in a power of two.
const subBits = 5

func (h *histogram) add(v uint64, weight float64) {
	power, sub := bucketOf(v)
	p := h.powers[power]
	if p == nil {
		p = new([1 << subBits]float64)
		h.powers[power] = p
	}
	p[sub] += weight
	if h.total == 0 {
		h.smallest = v
	}
	h.total += weight
	h.smallest, h.largest = min(h.smallest, v), max(h.largest, v)
}

// bucketOf: power 0 is the values below 32, one for each bucket.
func bucketOf(v uint64) (power, sub int) {
	if v < 1<<subBits {
		return 0, int(v)
	}
	power = bits.Len64(v) - subBits
	return power, int(v>>(power-1)) & (1<<subBits - 1)
}

// middle is the middle of a bucket.
func middle(power, sub int) uint64 {
	if power == 0 {
		return uint64(sub)
	}
	low := (1<<subBits | uint64(sub)) << (power - 1)
	return low + 1<<(power-1)/2
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
				return min(max(middle(power, sub), h.smallest), h.largest)
			}
		}
	}
	return h.largest
}
