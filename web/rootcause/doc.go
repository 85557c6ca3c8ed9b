// Package rootcause says what makes the slowest traces slow: which service, which of its
// operations, which peer or which connection between two services.
//
// Traces of one entry operation are compared with each other: the slowest share of them
// (2% unless told otherwise) with the middle half. Every moment of a trace's root span is
// on the critical path once, through one span (package waterfall); the time of that span
// itself is charged to its operation. So the times of a trace's operations add up to the
// root's duration, and what operations took longer in slow traces than in normal ones adds
// up to what slow traces were slower by, of which each operation explains a share.
//
// The middle half is the reference, because it holds neither what is slow for a cause that
// is rarer than one in four, nor the fastest quarter, among which are requests that ended
// early. A median would be simpler, but medians do not add up.
//
// # How sure it is
//
// Intervals hold 95%, by the Bayesian bootstrap (Rubin 1981): each of 1,000 repetitions
// weighs every trace anew by an exponential number, times how many traces it stands for,
// and selects slow and normal traces anew. So the choice of the threshold is part of the
// uncertainty. Few slow traces make percentiles too narrow, which is corrected (Hesterberg
// 2015: expanded percentiles). The choice of the largest among many
// operations does not make a false cause likely: in each repetition the causes must again be
// ahead of all others, and a verdict needs this of 95% of the repetitions.
//
// # Sampled traces
//
// A trace counts as many times as its tracestate says that it stands for (ot=th, see
// package consistent), so that traces that a tail decision kept because they were slow are
// not taken for the normal case. Without a threshold in the tracestate all traces count
// once: then it is assumed that whether a trace was kept did not depend on its duration. A trace
// that was kept retroactively stands for none (package store/weight): it is counted, and not read.
//
// # What it refuses
//
// It names no cause where there are too few slow traces, where too many of them are
// incomplete, where the time was spent in services whose calls are not linked to their
// requests, or where everything is a bit slower; and it says which of these, and what to
// do. Incomplete traces are left out of the comparison and counted. It does not compare
// traces of different entry operations.
//
// # Sources
//
//   - Rubin, D. B. (1981): The Bayesian bootstrap. Annals of Statistics 9, 130-134.
//   - Hesterberg, T. C. (2015): What teachers should know about the bootstrap. The American
//     Statistician 69, 371-386.
//   - ChainScope (docs/sources.md), section 5.3: subtracting the time of child spans, and
//     looking at the slowest 2%.
package rootcause
