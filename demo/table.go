package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/tare-trace/tare/lab/stats"
)

// WriteTable prints the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "chain %s, %d connections, %s sampled; %d CPUs, Linux %s, %s\n\n",
		r.Chain, r.Concurrency, percent(r.Sample), r.Machine.CPUs, r.Machine.Kernel, r.Machine.Arch)
	r.fidelityTable(&out)
	if r.Rounds > 0 {
		out.WriteByte('\n')
		r.costTable(&out)
	}
	if len(r.Programs) > 0 {
		out.WriteByte('\n')
		r.memoryLine(&out)
		r.programTable(&out)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&out, "\nwarning: %s", warning)
	}
	if len(r.Warnings) > 0 {
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// aligned lays cells out in columns: the first to the left, the others to
// the right. A row is its cells, divided by tabs.
func aligned(out *strings.Builder, rows []string) {
	table := make([][]string, len(rows))
	var widths []int
	for i, row := range rows {
		table[i] = strings.Split(row, "\t")
		for j, cell := range table[i] {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], len([]rune(cell)))
		}
	}
	for _, cells := range table {
		var line strings.Builder
		for j, cell := range cells {
			if j == 0 {
				fmt.Fprintf(&line, "%-*s", widths[0], cell)
			} else {
				fmt.Fprintf(&line, "  %*s", widths[j], cell)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
}

func (r *Result) fidelityTable(out *strings.Builder) {
	rows := []string{
		fmt.Sprintf("requests\t%d", r.Requests),
		fmt.Sprintf("failed\t%d", r.Failed),
		fmt.Sprintf("sampled\t%d", r.Sampled),
		fmt.Sprintf("complete\t%d\t%s", r.Complete, share(uint64(r.Complete), r.Sampled)),
		fmt.Sprintf("not linked\t%d", r.Unlinked),
	}
	for _, where := range sortedKeys(r.UnlinkedBy) {
		rows = append(rows, fmt.Sprintf("  %s\t%d", where, r.UnlinkedBy[where]))
	}
	rows = append(rows, fmt.Sprintf("incomplete\t%d", r.Incomplete))
	for _, reason := range sortedKeys(r.IncompleteBy) {
		rows = append(rows, fmt.Sprintf("  %s\t%d", reason, r.IncompleteBy[reason]))
	}
	rows = append(rows,
		fmt.Sprintf("orphaned spans\t%d", r.Orphaned),
		fmt.Sprintf("wrong\t%d", r.Wrong),
		fmt.Sprintf("requests in two traces\t%d", r.Split))
	var lost uint64
	var reasons []string
	for _, reason := range sortedKeys(r.Lost) {
		if n := r.Lost[reason]; n > 0 {
			lost += n
			reasons = append(reasons, fmt.Sprintf("  %s\t%d", reason, n))
		}
	}
	aligned(out, append(append(rows, fmt.Sprintf("lost\t%d", lost)), reasons...))
}

func (r *Result) costTable(out *strings.Builder) {
	row := func(name, format string, without, with float64, ratio, control stats.Ratio) string {
		return fmt.Sprintf("%s\t"+format+"\t"+format+"\t%s\t%s", name, without, with, interval(ratio), interval(control))
	}
	aligned(out, []string{
		"medians\tuntraced\ttraced\tratio (95% interval)\tcontrol: untraced/untraced",
		row("requests/s", "%.0f", r.Baseline.RPS, r.RPS, r.Ratio.RPS, r.Control.RPS),
		row("machine CPU per request, µs", "%.1f", r.Baseline.CPU, r.CPU, r.Ratio.CPU, r.Control.CPU),
	})
	fmt.Fprintf(out, "n = %d rounds", r.Ratio.CPU.N)
	if r.Ratio.CPU.Warning != "" {
		fmt.Fprintf(out, " (%s)", r.Ratio.CPU.Warning)
	}
	fmt.Fprintf(out, "\n\nagent: %.3f cores, %.1f MiB (peak %.1f MiB)\n", r.Agent.Cores, r.Agent.RSS, r.Agent.PeakRSS)
}

// memoryLine tells whether the agent's memory stays flat: after a quarter of
// the requests, a half, and all.
func (r *Result) memoryLine(out *strings.Builder) {
	m := r.Agent.Memory
	if len(m) < 4 {
		return
	}
	fmt.Fprintf(out, "agent's memory over the fidelity run: %.1f MiB after %d requests, %.1f after %d, %.1f after %d\n\n",
		m[len(m)/4].RSS, m[len(m)/4].Requests, m[len(m)/2].RSS, m[len(m)/2].Requests, m[len(m)-1].RSS, m[len(m)-1].Requests)
}

func (r *Result) programTable(out *strings.Builder) {
	rows := []string{"kernel program\truns\truns/request\tns/run\tns/request"}
	var sum float64
	requests := float64(max(r.Requests, 1))
	for _, p := range r.Programs {
		sum += p.Total()
		rows = append(rows, fmt.Sprintf("%s\t%d\t%.2f\t%.0f\t%.0f",
			p.Name, p.Runs, float64(p.Runs)/requests, p.NsPerRun, p.Total()/requests))
	}
	aligned(out, append(rows, fmt.Sprintf("all\t\t\t\t%.0f", sum/requests)))
}

func interval(r stats.Ratio) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", r.Median, r.Lo, r.Hi)
}

func percent(share float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", 100*share), "0"), ".") + "%"
}

// share is part of all, never rounded up to 100%.
func share(part, all uint64) string {
	if all == 0 {
		return ""
	}
	if part == all {
		return "100%"
	}
	return fmt.Sprintf("%.3f%%", min(100*float64(part)/float64(all), 99.999))
}
