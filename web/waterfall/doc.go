// Package waterfall analyses one trace for whoever shows it: it puts the spans
// in depth-first order, says how long each worked itself, which of them the
// response waited for, and what is missing. It takes spans as they come, in
// cycles, with equal ids, without parents, with times that cannot be: it never
// refuses a trace, and it never changes one.
package waterfall
