package main

import (
	"fmt"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/record"
)

// weight writes what each stage of the agent adds, beside programs that do nothing at
// the same hooks, which are the floor, and what became of the targets.
func weight(results, doc string) error {
	m, runs, err := bench.Read(results)
	if err != nil {
		return fmt.Errorf("%w: run make weight", err)
	}
	s, err := analysis.Analyse(m, runs)
	if err != nil {
		return err
	}
	titles := map[string]string{}
	for _, t := range m.Experiment.Tracers {
		titles[t.Name] = t.Title
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
			stage := titles[v.Tracer]
			switch {
			case v.Role == analysis.Again:
				stage += ", its second run"
			case v.Tracer == "tare":
				stage = "all stages, " + analysis.RatePercent(v.Rate) + " sampled"
			}
			fmt.Fprintf(&b, "| %s | %s |", c.Workload, stage)
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
		for _, f := range c.Findings {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", w.said, f.Workload, f.Variant, f.Text)
		}
	}
	fmt.Fprintf(&b, "\n%d rounds, profile %s; %d CPUs, Linux %s, at commit %s. Kernel programs were timed in runs of their own, by BPF statistics, which take 40 to 50 ns of each run themselves.\n",
		m.Experiment.Profiles[m.Profile].Rounds, m.Profile, m.Machine.CPUs, m.Machine.Kernel, m.Commit)
	return replace(doc, "weight", b.String())
}
