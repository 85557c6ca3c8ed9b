package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/tare-trace/tare/lab/stats"
)

// enginesResult is what is read of the results of store/engines, which is a module
// of its own.
type enginesResult struct {
	Commit  string   `json:"commit"`
	Machine string   `json:"machine"`
	Spans   int      `json:"spans"`
	Batch   int      `json:"batch"`
	Columns []string `json:"columns"`
	Table   []struct {
		What  string `json:"what"`
		Unit  string `json:"unit"`
		Cells []struct {
			Text     string          `json:"text"`
			Estimate *stats.Estimate `json:"estimate"`
		} `json:"cells"`
	} `json:"table"`
	Engines []struct {
		Version string     `json:"version"`
		Rounds  []struct{} `json:"rounds"`
	} `json:"engines"`
}

// engines writes the table of docs/adr/0012-a-store-on-pebble.md.
func engines(results, doc string) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return fmt.Errorf("run make store-engines: %w", err)
	}
	var r enginesResult
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	if len(r.Engines) == 0 || len(r.Table) == 0 {
		return fmt.Errorf("%s compares nothing: run make store-engines", results)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(r.Columns, " | "), strings.Repeat("---|", len(r.Columns)))
	for _, l := range r.Table {
		if len(l.Cells) != len(r.Columns) {
			return fmt.Errorf("%s: %d cells of %s, %d engines", results, len(l.Cells), l.What, len(r.Columns))
		}
		fmt.Fprintf(&b, "| %s |", strings.TrimSuffix(l.What+", "+l.Unit, ", "))
		for _, c := range l.Cells {
			if c.Estimate != nil {
				c.Text = significant(*c.Estimate)
			}
			fmt.Fprintf(&b, " %s |", c.Text)
		}
		b.WriteString("\n")
	}
	n := len(r.Engines[0].Rounds)
	interval := "the 95% interval"
	if n < stats.MinSamples {
		interval = "minimum and maximum"
	}
	versions := make([]string, len(r.Engines))
	for i, e := range r.Engines {
		versions[i] = "`" + e.Version + "`"
	}
	fmt.Fprintf(&b, "\n%d spans in batches of %d, %s; median of %d interleaved rounds with %s. %s.\n", r.Spans, r.Batch, r.Machine, n, interval, strings.Join(versions, ", "))
	if r.Commit != "" {
		fmt.Fprintf(&b, "Measured at commit %s.\n", r.Commit)
	}
	return replace(doc, "store-engines", b.String())
}

// significant writes an estimate with three digits.
func significant(e stats.Estimate) string {
	if e.N == 0 {
		return "not measured"
	}
	text := func(x float64) string {
		if x >= 1000 || x <= -1000 {
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%s (%s to %s)", text(e.Median), text(e.Lo), text(e.Hi))
}
