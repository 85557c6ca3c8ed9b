package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/tare-trace/tare/lab/stats"
)

// result is what is written as JSON. internal/costdoc makes the decision's table
// of Commit, Machine, Spans, Batch, Columns and Table.
type result struct {
	Commit  string     `json:"commit,omitempty"`
	Machine string     `json:"machine"`
	Spans   int        `json:"spans"`
	Batch   int        `json:"batch"` // spans
	Columns []string   `json:"columns"`
	Table   []line     `json:"table"`
	Engines []ofEngine `json:"engines"`
}

// line of the table. A cell has an estimate, or else a text.
type line struct {
	What  string `json:"what"`
	Unit  string `json:"unit,omitempty"`
	Cells []cell `json:"cells"`
}

type cell struct {
	Text     string          `json:"text,omitempty"`
	Estimate *stats.Estimate `json:"estimate,omitempty"`
}

type ofEngine struct {
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	AddedBytes int64      `json:"added_bytes"`
	Killed     killed     `json:"killed"`
	Rounds     []measured `json:"rounds"`
}

func newResult(c *comparison, spans int) *result {
	r := &result{Commit: c.commit, Machine: machine(), Spans: spans, Batch: batchSpans, Engines: make([]ofEngine, len(c.engines))}
	for i, e := range c.engines {
		r.Columns = append(r.Columns, e.name)
		r.Engines[i] = ofEngine{Name: e.name, Version: e.version()}
	}
	return r
}

func machine() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("one of %d CPUs, Linux %s, %s", runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.GOARCH)
}

var measures = []struct {
	what, unit string
	of         func(*measured) float64
}{
	{"durable batches in", "spans/s", func(m *measured) float64 { return m.Rate }},
	{"CPU of a span", "µs", func(m *measured) float64 { return m.CPU }},
	{"on disk", "bytes/span", func(m *measured) float64 { return m.Bytes }},
	{"logs beside that after writing", "MiB", func(m *measured) float64 { return m.Logs }},
	{"trace by id, median", "ms", func(m *measured) float64 { return m.TraceMedian }},
	{"trace by id, p99", "ms", func(m *measured) float64 { return m.TraceP99 }},
	{"search, newest 20 of many", "ms", func(m *measured) float64 { return m.Failed }},
	{"search, 3 among the oldest", "ms", func(m *measured) float64 { return m.Rare }},
	{"quantiles of every service", "ms", func(m *measured) float64 { return m.Quantiles }},
	{"opening", "ms", func(m *measured) float64 { return m.Open }},
	{"peak memory while writing", "MiB", func(m *measured) float64 { return m.WriteMem }},
	{"peak memory while reading", "MiB", func(m *measured) float64 { return m.ReadMem }},
}

// finish makes the table of what was measured.
func (r *result) finish() *result {
	for _, m := range measures {
		l := line{What: m.what, Unit: m.unit}
		for i := range r.Engines {
			var xs []float64
			for j := range r.Engines[i].Rounds {
				xs = append(xs, m.of(&r.Engines[i].Rounds[j]))
			}
			e := stats.Interval(xs)
			l.Cells = append(l.Cells, cell{Estimate: &e})
		}
		r.Table = append(r.Table, l)
	}
	size, after := line{What: "added to a binary", Unit: "MiB"}, line{What: "after one kill -9"}
	for i := range r.Engines {
		e := &r.Engines[i]
		size.Cells = append(size.Cells, cell{Text: fmt.Sprintf("%.1f", float64(e.AddedBytes)/(1<<20))})
		after.Cells = append(after.Cells, cell{Text: e.Killed.String()})
	}
	r.Table = append(r.Table, size, after)
	return r
}

func (k killed) String() string {
	if k.Unopened != "" {
		return "does not open: " + k.Unopened
	}
	text := "nothing lost"
	if k.Lost+k.Partial > 0 {
		text = fmt.Sprintf("%d traces lost, %d partly", k.Lost, k.Partial)
	}
	if k.Torn {
		text += ", a torn batch"
	}
	return fmt.Sprintf("%s, opened in %.0f ms", text, k.Open)
}

func (r *result) table() string {
	var b strings.Builder
	few := false
	fmt.Fprintf(&b, "%d spans in batches of %d, %s\n\n", r.Spans, r.Batch, r.Machine)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) } // into memory
	row(append([]string{""}, r.Columns...)...)
	for _, l := range r.Table {
		cells := []string{strings.TrimSuffix(l.What+", "+l.Unit, ", ")}
		for _, c := range l.Cells {
			text := c.Text
			if c.Estimate != nil {
				e := *c.Estimate
				if e.Warning = ""; e.N < stats.MinSamples {
					few = true
				}
				text = e.String()
			}
			cells = append(cells, text)
		}
		row(cells...)
	}
	_ = w.Flush() // into memory
	if few {
		fmt.Fprintf(&b, "\nfewer than %d rounds: the intervals are from minimum to maximum\n", stats.MinSamples)
	}
	return b.String()
}
