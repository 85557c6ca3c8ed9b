/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The histogram of durations. Pure functions, compiled into the kernel programs and, for its tests,
 * into an ordinary library.
 *
 * Two buckets for each doubling from 2^BUCKET_FIRST to 2^BUCKET_LAST ns, and one more at each end.
 * A bucket holds its upper bound: bucket 0 is (0, 2^FIRST], 1 is up to 1.5 * 2^FIRST, 2 is up to
 * 2 * 2^FIRST, and so on. A quantile that is read from it is off by half at most.
 */
#ifndef TARE_BUCKET_H
#define TARE_BUCKET_H

#define BUCKET_FIRST 13 /* 8 us */
#define BUCKET_LAST  35 /* 34 s */
#define BUCKETS	     (2 + 2 * (BUCKET_LAST - BUCKET_FIRST))

#define BUCKET_INLINE static inline __attribute__((always_inline))

/* v is not 0. By halves: BPF counts no leading zeros. */
BUCKET_INLINE __u32 bucket_log2(__u64 v)
{
	__u32 r = (v > 0xffffffff) << 5, n;
	v >>= r;
	n = (v > 0xffff) << 4;
	v >>= n;
	r |= n;
	n = (v > 0xff) << 3;
	v >>= n;
	r |= n;
	n = (v > 0xf) << 2;
	v >>= n;
	r |= n;
	n = (v > 3) << 1;
	v >>= n;
	r |= n;
	return r | (__u32)(v >> 1);
}

/* Less than BUCKETS. */
BUCKET_INLINE __u32 bucket_of(__u64 ns)
{
	if (ns <= 1ULL << BUCKET_FIRST)
		return 0;
	ns--; /* a bucket holds its upper bound */
	if (ns >> BUCKET_LAST)
		return BUCKETS - 1;
	__u32 log = bucket_log2(ns) & 63;
	__u32 half = ns >> ((log - 1) & 63) & 1;
	return 1 + 2 * (log - BUCKET_FIRST) + half;
}

#endif
