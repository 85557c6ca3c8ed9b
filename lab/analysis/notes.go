package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// notes are what a reader must know beside the numbers.
func notes(m *record.Manifest, s *Summary) []string {
	out := slices.Clone(m.Notes)
	if m.Asked != "" {
		out = append(out, fmt.Sprintf("Questions and figures are those of commit %s, asked after it was measured.", m.Asked))
	}
	if n := len(s.NotOffered); n > 0 {
		out = append(out, fmt.Sprintf("This kernel, Linux %s, does not offer what these tracers need, so there is nothing of them here: %s.",
			m.Machine.Kernel, strings.Join(slices.Sorted(maps.Keys(s.NotOffered)), ", ")))
	}
	if all, kept := s.Runs.Measured, s.Runs.MeasuredKept; kept < all {
		out = append(out, fmt.Sprintf("Rules excluded %d of %d measured runs.", all-kept, all))
	}
	var few, none []string
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			name := c.Name + " " + v.Name
			switch {
			case v.Runs == 0: // profiled or checked only
			case v.Kept == 0:
				none = append(none, name)
			case v.Kept < stats.MinSamples:
				few = append(few, fmt.Sprintf("%s (n=%d)", name, v.Kept))
			}
		}
	}
	if len(none) > 0 {
		out = append(out, "No run of these counts: "+strings.Join(none, ", ")+".")
	}
	if len(few) > 0 {
		out = append(out, fmt.Sprintf("Fewer than %d rounds of these count, so that nothing can be told from noise: %s.", stats.MinSamples, some(few)))
	}
	for _, r := range s.Rules {
		if r.Unjudged > 0 {
			out = append(out, fmt.Sprintf("The rule %s could not look at %d runs, which lack what it looks at; they count.", r.Name, r.Unjudged))
		}
	}
	if s.Overheads.Limited > 0 {
		out = append(out, fmt.Sprintf("In %d runs that count the load generator says that its numbers may not be the service's.", s.Overheads.Limited))
	}
	return append(out, biased(s)...)
}

// biased names controls that differ from themselves more often than chance has
// it: one in twenty would by the width of the intervals alone.
func biased(s *Summary) []string {
	total, off := 0, 0
	var which []string
	for _, c := range s.Cells {
		for _, k := range c.Control {
			if k.Estimate.N < stats.MinSamples || k.Estimate.Lo == k.Estimate.Hi {
				continue
			}
			total++
			if neutral := k.As.neutral(); neutral < k.Estimate.Lo || k.Estimate.Hi < neutral {
				off++
				which = append(which, c.Name+" "+k.Metric)
			}
		}
	}
	if off == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The baseline differs from itself in %d of %d comparisons (chance alone makes it one in twenty): %s.", off, total, some(which))}
}

// some of a list of names.
func some(names []string) string {
	const most = 8
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
