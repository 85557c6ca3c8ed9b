package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

// found are the answers in short.
func found(a *grid, s *Summary) []string {
	out := []string{}
	for i, q := range s.Answers {
		for j, c := range q.Claims {
			m, _ := record.MetricOf(c.Metric)
			if len(c.Findings) == 0 {
				continue
			}
			out = append(out, fmt.Sprintf("%s, %s%s: %s", q.ID, m.Name, Subject(a.e.Questions[i].Claims[j].Where, s.NotOffered), c.Summary))
		}
	}
	if len(s.Answers) > 0 || len(a.e.Metrics) == 0 {
		return out
	}
	m, _ := record.MetricOf(a.e.Metrics[0])
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			if e := v.Effect(m.Key); e != nil && v.Role == Traced {
				out = append(out, fmt.Sprintf("%s of %s on %s: %s", m.Name, v.Name, c.Name, e.Text))
			}
		}
	}
	return out
}

// Subject names what a claim is about, without the tracers that need another kernel.
func Subject(s experiment.Subset, notOffered map[string]string) string {
	text := ""
	here := slices.DeleteFunc(slices.Clone(s.Tracers), func(tracer string) bool {
		_, elsewhere := notOffered[tracer]
		return elsewhere
	})
	if len(here) > 0 {
		text += " with " + strings.Join(here, ", ")
	}
	if len(s.Workloads) > 0 {
		text += " on " + strings.Join(s.Workloads, ", ")
	}
	if len(s.Loads) > 0 {
		text += " at " + strings.Join(s.Loads, ", ")
	}
	return text
}
