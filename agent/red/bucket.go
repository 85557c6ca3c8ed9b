package red

// bucketFirst is BUCKET_FIRST of bpf/bucket.h, where the buckets are described.
// A test holds bound against the C.
const bucketFirst = 13

// bound is the upper bound of a bucket in seconds, which the bucket holds.
func bound(i int) float64 {
	ns := uint64(1) << (bucketFirst + i/2)
	if i%2 == 1 {
		ns += ns / 2
	}
	return float64(ns) / 1e9
}
