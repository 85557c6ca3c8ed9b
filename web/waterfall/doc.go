// Package waterfall analyses one trace for display: it orders the spans depth first, and
// computes their self times, the critical path, and what is missing. It accepts any
// spans, also with cycles, equal ids, missing parents or impossible times, and does not
// change them.
package waterfall
