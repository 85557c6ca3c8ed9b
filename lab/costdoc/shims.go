package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
)

// shims writes what a shim costs beside OpenTelemetry's instrumentation, as the experiment shims measured it.
func shims(results, doc string) error {
	m, s, err := read(results)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, w := range []struct{ metric, said string }{
		{record.CPUService, "CPU of the service, µs per request"}, {record.Throughput, "Requests/s, 16 connections"}, {record.P99, "p99, ms"},
	} {
		if i == 0 {
			b.WriteString("| | service |")
			for _, t := range m.Experiment.Tracers {
				fmt.Fprintf(&b, " %s |", t.Title)
			}
			b.WriteString("\n|---|---|" + strings.Repeat("---|", len(m.Experiment.Tracers)) + "\n")
		}
		for _, c := range s.Cells {
			if c.Load != m.Experiment.Loads[0].Name {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", w.said, c.Workload)
			for _, t := range m.Experiment.Tracers {
				fmt.Fprintf(&b, " %s |", measured(c, t.Name, w.metric))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\nOf the CPU time that OpenTelemetry's instrumentation adds to the service, the shim and the agent add, round by round:\n\n| service | | share |\n|---|---|---|\n")
	for i, what := range []string{"the shim alone", "the agent and its shim"} {
		c, err := claimOf(s, results, claim{"cost", i})
		if err != nil {
			return err
		}
		rows := c.Rows()
		for i, f := range c.Findings {
			if f.Load == m.Experiment.Loads[0].Name {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Workload, what, rows[i])
			}
		}
	}
	fmt.Fprintf(&b, "\n%s\n", measuredOn(m))
	return replace(doc, "shims-report", b.String())
}

// measured is the median of a tracer's runs in a cell.
func measured(c analysis.Cell, tracer, metric string) string {
	i := slices.IndexFunc(c.Variants, func(v analysis.Variant) bool { return v.Tracer == tracer && v.Role != analysis.Again })
	if i < 0 {
		return "–"
	}
	return scaled(c.Variants[i], metric, "%.4g", 1)
}
