package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
	"github.com/tare-trace/tare/workloads"
)

// storeRows are the rows of the store's table: a benchmark, what it measures,
// and its target in the benchmark's unit (0: none).
var storeRows = []struct {
	what, name, unit string
	target           float64
	atLeast          bool
}{
	{"spans in, one CPU", "Cost/Write", "spans/s", 100_000, true},
	{"CPU of a span written", "Cost/Write", "cpu-sec/span", 0, false},
	{"bytes on disk of a span", "Cost/Write", "B/span", 0, false},
	{"a trace by its id, of 10,000,000 spans", "Cost/TraceByID", "sec/op", 0.005, false},
	{"search over 10,000,000 spans, the worst of the queries", "Cost/Search/worst", "sec/op", 0.3, false},
	{"search over 10,000,000 spans, service and status", "Cost/Search/failed", "sec/op", 0.3, false},
	{"quantiles of every service over 1,000,000 spans", "Cost/Latencies", "sec/op", 1, false},
	{"service map over 1,000,000 spans", "Cost/Map", "sec/op", 0, false},
}

// collector writes the tables of docs/collector.md, and those with targets into
// docs/cost.md, too.
func collector(benchmarks, flood, results, doc, cost string) error {
	var b, each strings.Builder
	dir := filepath.Join(results, "collector")
	fmt.Fprintf(&b, "`tare bench run collector --profile quick` ([report](results/collector/report.md)); a request holds %d spans.\n\n", workloads.SpansPerBody)
	if err := perSpan(&each, dir); err != nil {
		return err
	}
	head := b.String()
	b.Reset()
	if err := claims(&b, dir, claim{"K1", 0}, claim{"K2", 0}, claim{"K2", 1}); err != nil {
		return err
	}
	if err := storeTable(&b, benchmarks); err != nil {
		return err
	}
	if err := floodTable(&b, flood); err != nil {
		return err
	}
	if err := replace(doc, "collector-cost", head+each.String()+b.String()); err != nil {
		return err
	}
	return replace(cost, "collector-cost", head+b.String())
}

// perSpan writes the cost of a span in each variant.
func perSpan(b *strings.Builder, dir string) error {
	s, err := summary(dir)
	if err != nil {
		return err
	}
	b.WriteString("| forwarded | collector | CPU of a span | spans/s taken | memory |\n|---|---|---|---|---|\n")
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			if v.Role == analysis.Again {
				continue
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", c.Workload, v.Name,
				scaled(v, record.CPUService, "%.2f µs", 1./workloads.SpansPerBody),
				scaled(v, record.Throughput, "%.0f", workloads.SpansPerBody),
				scaled(v, record.MemServicePeak, "%.0f MiB", 1))
		}
	}
	b.WriteString("\n")
	return nil
}

// scaled is a metric's median with its interval.
func scaled(v analysis.Variant, metric, format string, by float64) string {
	i := slices.IndexFunc(v.Metrics, func(m analysis.Measure) bool { return m.Metric == metric })
	if i < 0 {
		return "not measured"
	}
	e := v.Metrics[i].Value
	text := func(x float64) string { return fmt.Sprintf(format, x*by) }
	if e.N < stats.MinSamples {
		return fmt.Sprintf("%s (n = %d)", text(e.Median), e.N)
	}
	return fmt.Sprintf("%s (%s to %s, n = %d)", text(e.Median), text(e.Lo), text(e.Hi), e.N)
}

// storeTable writes how many spans the store takes in and how fast it answers.
func storeTable(b *strings.Builder, benchmarks string) error {
	s, commit, err := readBenchmarks(benchmarks)
	if err != nil {
		return err
	}
	b.WriteString("The store by itself, `make store-cost`:\n\n| | measured | target | |\n|---|---|---|---|\n")
	for _, r := range storeRows {
		xs := s.of(storePackage+" "+r.name, r.unit)
		if len(xs) == 0 {
			return fmt.Errorf("%s has no %s with %s: run make store-cost", benchmarks, r.name, r.unit)
		}
		e := stats.Interval(xs)
		target, judged := "", ""
		if r.target > 0 {
			sign, f := "≤", stats.AtMost
			if r.atLeast {
				sign, f = "≥", stats.AtLeast
			}
			target, judged = sign+" "+quantity(r.target, r.unit), strings.Replace(f(e, r.target), "missed", "**missed**", 1)
		}
		fmt.Fprintf(b, "| %s | %s (%s to %s, n = %d) | %s | %s |\n", r.what, quantity(e.Median, r.unit),
			quantity(e.Lo, r.unit), quantity(e.Hi, r.unit), e.N, target, judged)
	}
	fmt.Fprintf(b, "\nThe store was measured at commit %s.\n", commit)
	return nil
}

// floodTable writes the results of integration/collector_flood_test.go.
func floodTable(b *strings.Builder, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b.WriteString("\nA flood of ten times what a collector takes, `make flood-cost` (`integration/collector_flood_test.go`); its senders wait for answers. " +
		"Memory is of the process, the limit is memory_limiter's, of the heap.\n\n" +
		"| the collector has | takes, spans/s | offered | taken | refused (503) | held back | taken and lost, counted | memory before, limit, most | all load is taken again after |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	rows, commit := 0, ""
	for line := range bytes.Lines(text) {
		var r struct {
			Commit                         string // alone, in the first line
			CPU                            float64
			Limit                          float64 `json:"limit_mib"`
			Takes, Offered, OK             float64
			Refused, Unsent, Seconds, Lost float64
			Idle                           float64 `json:"idle_mib"`
			Most                           float64 `json:"most_mib"`
			Recovered                      float64 `json:"recovered_s"`
			Backend                        bool    `json:"with_backend"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if r.Commit != "" {
			commit = r.Commit
			continue
		}
		what := fmt.Sprintf("%g of a CPU", r.CPU)
		if r.Backend {
			what += ", and a backend that does not answer"
		}
		fmt.Fprintf(b, "| %s | %.0f | %.0f in %.0f s | %.0f | %.0f | %.0f | %.0f | %.0f, %.0f, %.0f MiB | %.1f s |\n",
			what, r.Takes, r.Offered, r.Seconds, r.OK, r.Refused, r.Unsent, r.Lost, r.Idle, r.Limit, r.Most, r.Recovered)
		rows++
	}
	if rows == 0 {
		return fmt.Errorf("%s has no flood: run make flood-cost", file)
	}
	fmt.Fprintf(b, "\nFloods were measured at commit %s.\n", commit)
	return nil
}

const storePackage = "github.com/tare-trace/tare/store"

func quantity(x float64, unit string) string {
	switch {
	case !strings.Contains(unit, "sec/"):
		return fmt.Sprintf("%.0f %s", x, unit)
	case x < 1e-4:
		return fmt.Sprintf("%.3g µs", x*1e6)
	case x >= 1:
		return fmt.Sprintf("%.3g s", x)
	}
	return fmt.Sprintf("%.3g ms", x*1e3)
}
