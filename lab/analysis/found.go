package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// found are the answers in short. Where no effect rests on enough rounds, smoke says so, and
// what remains are the answers that count traces, calls or runs; without any of these the
// experiment was a smoke test.
func found(a *grid, s *Summary) (smoke string, answers []string) {
	told, few := []string{}, []string{}
	rounds := 0 // the most that an effect rests on
	add := func(text string, n int) {
		if n >= stats.MinSamples {
			told = append(told, text)
			return
		}
		few, rounds = append(few, text), max(rounds, n)
	}
	effects := 0 // that can be told
	for i, q := range s.Answers {
		for j, c := range q.Claims {
			m, _ := record.MetricOf(c.Metric)
			if len(c.Findings) == 0 {
				continue
			}
			n, counted := restsOn(c.Findings)
			if !counted && n >= stats.MinSamples {
				effects++
			}
			add(fmt.Sprintf("%s, %s%s: %s", q.ID, m.Name, Subject(a.e.Questions[i].Claims[j].Where, s.NotOffered), c.Summary), n)
		}
	}
	if len(s.Answers) == 0 && len(a.e.Metrics) > 0 {
		m, _ := record.MetricOf(a.e.Metrics[0])
		for _, c := range s.Cells {
			for _, v := range c.Variants {
				if e := v.Effect(m.Key); e != nil && v.Role == Traced {
					effects += min(1, e.Estimate.N/stats.MinSamples)
					add(fmt.Sprintf("%s of %s on %s: %s", m.Name, v.Name, c.Name, e.Text), e.Estimate.N)
				}
			}
		}
	}
	switch {
	case len(few) == 0 && (len(told) > 0 || s.Runs.Measured == 0): // else the rules may have excluded all
		return "", told
	case effects > 0:
		return "", append(told, few...)
	}
	shows := "smoke: shows that it runs."
	if len(told) > 0 {
		shows = "Counts alone: what it costs is not measured here."
	}
	return fmt.Sprintf("%s An effect needs at least %d rounds to be told from noise, and at most %d count here.", shows, stats.MinSamples, rounds), told
}

// restsOn is the number of values that the best of the findings rests on, and whether these
// are traces or calls, of which a single round has many.
func restsOn(findings []Finding) (n int, counted bool) {
	for _, f := range findings {
		switch {
		case f.Proportion != nil:
			return max(f.Proportion.N, stats.MinSamples), true
		case f.Effect != nil:
			n = max(n, f.Effect.Estimate.N)
		case f.Value != nil:
			n = max(n, f.Value.N)
		}
	}
	return n, false
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
