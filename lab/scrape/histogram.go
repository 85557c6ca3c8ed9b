package scrape

import (
	"errors"
	"fmt"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Histogram is a histogram with fixed buckets, summed over all its series.
type Histogram struct {
	// Bounds are the buckets' upper ends, ascending; the last is +Inf.
	Bounds []float64
	// Counts of the buckets, each without those below it.
	Counts []uint64
}

// Histogram adds up the series of a family. It is an error if the family is no
// histogram, or if its series have other buckets than each other; one without series
// is empty.
func (f Families) Histogram(name string) (Histogram, error) {
	family := f[name]
	if family.GetType() != dto.MetricType_HISTOGRAM {
		return Histogram{}, fmt.Errorf("%s is no histogram", name)
	}
	var sum Histogram
	for _, m := range family.GetMetric() {
		h, err := histogramOf(m.GetHistogram())
		if err == nil && sum.Bounds == nil {
			sum = h
			continue
		}
		if err == nil {
			err = sum.add(h)
		}
		if err != nil {
			return Histogram{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return sum, nil
}

var errBuckets = errors.New("the buckets of two series, or of one at two times, are not the same")

func histogramOf(h *dto.Histogram) (Histogram, error) {
	var out Histogram
	below := uint64(0)
	next := func(bound float64, upTo uint64) error {
		if n := len(out.Bounds); math.IsNaN(bound) || n > 0 && bound <= out.Bounds[n-1] || upTo < below {
			return fmt.Errorf("the bucket up to %v, with %d, does not follow one with %d", bound, upTo, below)
		}
		out.Bounds, out.Counts = append(out.Bounds, bound), append(out.Counts, upTo-below)
		below = upTo
		return nil
	}
	for _, b := range h.GetBucket() {
		if err := next(b.GetUpperBound(), b.GetCumulativeCount()); err != nil {
			return Histogram{}, err
		}
	}
	if n := len(out.Bounds); n == 0 || !math.IsInf(out.Bounds[n-1], 1) { // the count stands for the last bucket
		if err := next(math.Inf(1), h.GetSampleCount()); err != nil {
			return Histogram{}, err
		}
	}
	return out, nil
}

func (h Histogram) add(o Histogram) error {
	if !slices.Equal(h.Bounds, o.Bounds) {
		return errBuckets
	}
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	return nil
}

// Since is what was observed between an earlier reading and this one.
func (h Histogram) Since(earlier Histogram) (Histogram, error) {
	if earlier.Bounds == nil {
		return h, nil
	}
	if !slices.Equal(h.Bounds, earlier.Bounds) {
		return Histogram{}, errBuckets
	}
	d := Histogram{Bounds: h.Bounds, Counts: make([]uint64, len(h.Counts))}
	for i, n := range h.Counts {
		if n < earlier.Counts[i] {
			return Histogram{}, fmt.Errorf("the bucket up to %v had %d observations and has %d: the service was restarted between two readings", h.Bounds[i], earlier.Counts[i], n)
		}
		d.Counts[i] = n - earlier.Counts[i]
	}
	return d, nil
}

// Count of all observations.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile estimates a quantile, q from 0 to 1, by linear interpolation within the
// bucket that it lies in, from lo to hi: the true value is nowhere else. The first
// bucket begins at 0. ok is false if there are no observations, or if it lies beyond
// the last finite bound.
func (h Histogram) Quantile(q float64) (value, lo, hi float64, ok bool) {
	n := h.Count()
	if n == 0 || !(q >= 0 && q <= 1) {
		return 0, 0, 0, false
	}
	rank, below := q*float64(n), 0.0
	for i, c := range h.Counts {
		if count := float64(c); c > 0 && below+count >= rank {
			if hi = h.Bounds[i]; math.IsInf(hi, 0) {
				return 0, 0, 0, false
			}
			if i > 0 {
				lo = h.Bounds[i-1]
			}
			lo = min(lo, hi) // a first bound below 0
			return lo + (hi-lo)*(rank-below)/count, lo, hi, true
		}
		below += float64(c)
	}
	return 0, 0, 0, false
}

// Above counts the observations above the least bound that is at least limit, which it
// returns: what lies between limit and that bound cannot be told apart. ok is false if no
// finite bound is as great.
func (h Histogram) Above(limit float64) (bound float64, n uint64, ok bool) {
	i, _ := slices.BinarySearch(h.Bounds, limit)
	if i >= len(h.Bounds)-1 {
		return 0, 0, false
	}
	return h.Bounds[i], Histogram{Counts: h.Counts[i+1:]}.Count(), true
}
