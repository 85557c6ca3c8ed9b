package main

import (
	"fmt"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
)

// weight writes what each stage of the agent adds, beside programs that do nothing at
// the same hooks, which are the floor, and what became of the targets.
func weight(results, doc string) error {
	m, s, err := read(results)
	if err != nil {
		return err
	}
	titles := map[string]string{}
	for _, t := range m.Experiment.Tracers {
		titles[t.Name] = t.Title
	}
	stage := func(tracer string, rate float64) string {
		if tracer == "tare" {
			return "all stages, " + analysis.RatePercent(rate) + " sampled"
		}
		return titles[tracer]
	}
	columns := []string{record.CPUMachine, record.CPUTraced, record.CPUTracerSpan, record.KernelPrograms}
	var b strings.Builder
	b.WriteString("| workload | stage |")
	for _, key := range columns {
		metric, _ := record.MetricOf(key)
		fmt.Fprintf(&b, " %s, %s |", metric.Name, metric.Unit)
	}
	b.WriteString(" machine, against no tracing |\n|---|---|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			name := stage(v.Tracer, v.Rate)
			if v.Role == analysis.Again {
				name += ", its second run"
			}
			fmt.Fprintf(&b, "| %s | %s |", c.Workload, name)
			for _, key := range columns {
				fmt.Fprintf(&b, " %s |", strings.ReplaceAll(scaled(v, key, "%.3g", 1), "not measured", "–"))
			}
			against := "–"
			if e := v.Effect(record.CPUMachine); e != nil && v.Role == analysis.Traced {
				change, interval := e.Change(record.Metric{Key: record.CPUMachine})
				against = fmt.Sprintf("%s (%s, n = %d)", change, interval, e.Estimate.N)
			}
			fmt.Fprintf(&b, " %s |\n", against)
		}
	}
	b.WriteString("\n| target | workload | stage | |\n|---|---|---|---|\n")
	for _, w := range []struct {
		claim
		said string
	}{
		{claim{"unsampled", 0}, "added by 1% sampled, in relation to what programs that do nothing add"},
		{claim{"unsampled", 1}, "CPU of the machine at 1%"},
		{claim{"sampled", 0}, "CPU of the machine at 100%"},
		{claim{"neighbour", 0}, "a service that is not traced: CPU of the machine"},
	} {
		c, err := claimOf(s, results, w.claim)
		if err != nil {
			return err
		}
		rows := c.Rows()
		for i, f := range c.Findings {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", w.said, f.Workload, stage(f.Tracer, f.Rate), rows[i])
		}
	}
	fmt.Fprintf(&b, "\n%s Kernel programs were timed in runs of their own, by BPF statistics, which are part of what they measure.\n", measuredOn(m))
	return replace(doc, "weight", b.String())
}
