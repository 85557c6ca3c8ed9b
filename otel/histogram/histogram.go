// Package histogram has the buckets of histograms that are linear within each
// power of two, as HdrHistogram's are: two shifts find a bucket, and the width of
// a bucket is a fixed share of the values in it. It counts nothing: how counts are
// stored and read differs between its users.
package histogram

import "math/bits"

// Buckets divide the uint64 values. Each power of two has 1<<b of them, so that a
// bucket is at most 1/(1<<b) of its smallest value wide; values below 1<<b have a
// bucket each.
type Buckets uint

// Of is the index of the bucket that holds v.
func (b Buckets) Of(v uint64) int {
	if v < 1<<b {
		return int(v)
	}
	shift := uint(bits.Len64(v)) - 1 - uint(b) // v>>shift is from 1<<b to 2<<b - 1
	return int((shift+1)<<b | uint(v>>shift)&(1<<b-1))
}

// Start is the smallest value of bucket i, which ends before Start(i+1). After the
// last bucket it is 0, as 1<<64 is: differences are still right.
func (b Buckets) Start(i int) uint64 {
	power, sub := uint64(i)>>b, uint64(i)&(1<<b-1)
	if power == 0 {
		return sub
	}
	return (1<<b | sub) << (power - 1)
}
