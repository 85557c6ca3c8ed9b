// Command costdoc writes measured results into the tables of documents:
//
//	agent      docs/cost.md, README.md   of `make cost`
//	go         docs/runtimes.md, docs/cost.md   of `make go-calls` and experiments
//	runtimes   docs/linking.md, docs/runtimes.md   of `make runtimes`
//	shims      docs/runtimes.md   of `make shims-cost`
//	weight     docs/cost.md   of `make weight`
//	instructions   docs/cost.md   of `make weight-exact`
//	kernels    docs/kernels.md   of `make test-kernels`
//	collector  docs/collector.md, docs/cost.md   of `make collector-cost`
//	otel       otel/README.md   of `make otel-cost`
//	results    docs/results/README.md   the answers of all experiments
//
// It measures nothing, and judges only against the targets that are written here.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-trace/tare/lab/stats"
)

// parts of the program by name, with the arguments that each takes.
var parts = map[string]struct {
	args []string
	run  func(args []string) error
}{
	"agent":        {[]string{"RESULTS-DIRECTORY", "docs/cost.md", "README.md"}, func(a []string) error { return run(a[0], a[1], a[2]) }},
	"otel":         {[]string{"BENCHMARKS", "docs/results", "otel/README.md"}, func(a []string) error { return libraries(a[0], a[1], a[2]) }},
	"go":           {[]string{"CALLS", "docs/results", "docs/runtimes.md", "docs/cost.md"}, func(a []string) error { return goLinking(a[0], a[1], a[2], a[3]) }},
	"runtimes":     {[]string{"RESULTS-DIRECTORY", "RESULTS-DIRECTORY", "docs/linking.md", "docs/runtimes.md"}, func(a []string) error { return runtimes(a[0], a[1], a[2], a[3]) }},
	"results":      {[]string{"RESULTS-DIRECTORY", "docs/results/README.md"}, func(a []string) error { return resultsIndex(a[0], a[1]) }},
	"shims":        {[]string{"RESULTS-DIRECTORY", "docs/runtimes.md"}, func(a []string) error { return shims(a[0], a[1]) }},
	"weight":       {[]string{"RESULTS-DIRECTORY", "docs/cost.md"}, func(a []string) error { return weight(a[0], a[1]) }},
	"instructions": {[]string{"RESULTS", "docs/cost.md"}, func(a []string) error { return instructions(a[0], a[1]) }},
	"kernels":      {[]string{"RESULTS", "docs/kernels.md"}, func(a []string) error { return matrix(a[0], a[1]) }},
	"collector":    {[]string{"BENCHMARKS", "FLOODS", "docs/results", "docs/collector.md", "docs/cost.md"}, func(a []string) error { return collector(a[0], a[1], a[2], a[3], a[4]) }},
}

func main() {
	name, args := "", os.Args[1:]
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	p, ok := parts[name]
	if !ok || len(args) != len(p.args) {
		fmt.Fprintln(os.Stderr, "usage:")
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			fmt.Fprintln(os.Stderr, "  costdoc", name, strings.Join(parts[name].args, " "))
		}
		os.Exit(2)
	}
	if err := p.run(args); err != nil {
		fmt.Fprintln(os.Stderr, "costdoc:", err)
		os.Exit(1)
	}
}

func run(dir, doc, readme string) error {
	results, err := load(dir)
	if err != nil {
		return err
	}
	commit, err := os.ReadFile(filepath.Join(dir, "commit"))
	if err != nil {
		return err
	}
	at := "Measured at commit " + strings.TrimSpace(string(commit)) + "."
	if err := replace(doc, "cost", targets(results)+at+"\n\n"+costDoc(results)); err != nil {
		return err
	}
	return replace(readme, "cost", numbers(results, strings.TrimSpace(string(commit))))
}

// numbers is what README.md shows of the nginx chain.
func numbers(results map[string]*demoResult, commit string) string {
	one, all := results["nginx-0.01"], results["nginx-1"]
	if one == nil || all == nil {
		return "`make cost` has not measured nginx at 1% and 100%.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| nginx before nginx, saturated, %d CPUs, commit %s | 1%% sampled | 100%% sampled |\n|---|---|---|\n", all.Machine.CPUs, commit)
	row := func(what, cell string, of func(r *demoResult) []any) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, fmt.Sprintf(cell, of(one)...), fmt.Sprintf(cell, of(all)...))
	}
	row("CPU of the machine per request, untraced = 1", "%.2f (%.2f–%.2f, n=%d)", func(r *demoResult) []any {
		return []any{r.Ratio.CPU.Median, r.Ratio.CPU.Lo, r.Ratio.CPU.Hi, r.Ratio.CPU.N}
	})
	row("agent: CPU; peak memory", "%.3f cores; %.0f MiB", func(r *demoResult) []any { return []any{r.Agent.Cores, r.Agent.PeakRSS} })
	row("complete traces", "%d of %d", func(r *demoResult) []any { return []any{r.Complete, r.Sampled} })
	return b.String()
}

// load reads all results, by "chain-sample".
func load(dir string) (map[string]*demoResult, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	results := map[string]*demoResult{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r := &demoResult{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		key := fmt.Sprintf("%s-%v", r.Chain, r.Sample)
		if r.Rounds == 0 {
			key += "-soak" // for fidelity and memory over many requests
		}
		results[key] = r
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no result in %s: run make cost", dir)
	}
	return results, nil
}

// replace puts text between the markers of a file that name the target of make.
func replace(file, target, text string) error {
	begin, end := "<!-- make "+target+": begin -->", "<!-- make "+target+": end -->"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(begin))
	if !ok {
		return fmt.Errorf("%s has no line %s", file, begin)
	}
	_, tail, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return fmt.Errorf("%s has no line %s", file, end)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%s\n%s\n%s%s", head, begin, strings.TrimSpace(text), end, tail)
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func machine(r *demoResult) string {
	return fmt.Sprintf("%d CPUs, Linux %s, %s", r.Machine.CPUs, r.Machine.Kernel, r.Machine.Arch)
}

func ratio(r stats.Ratio) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f, n = %d)", r.Median, r.Lo, r.Hi, r.N)
}

// verdict says whether a ratio is at most the limit.
func verdict(r stats.Ratio, limit float64) string {
	return strings.Replace(stats.AtMost(r, limit), "missed", "**missed**", 1)
}

func atMost(v, limit float64) string {
	if v <= limit {
		return "met"
	}
	return "**missed**"
}

// targets is the first table of docs/cost.md.
func targets(results map[string]*demoResult) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| | target | measured | |\n|---|---|---|---|")
	row := func(what, target, measured, judged string) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, target, measured, judged)
	}
	for _, chain := range []string{"nginx", "shop"} {
		if r := results[chain+"-1"]; r != nil {
			share := float64(r.Complete) / max(float64(r.Sampled), 1)
			judged := "met"
			if share < 0.999 || r.Wrong > 0 {
				judged = "**missed**"
			}
			row(fmt.Sprintf("fidelity, `%s`, 100%% sampled, %d connections, %d requests", chain, r.Concurrency, r.Requests),
				"≥ 99.9% complete, 0 wrong",
				fmt.Sprintf("%d of %d complete (%.3f%%), %d wrong, %d orphaned spans, %d requests failed", r.Complete, r.Sampled, 100*share, r.Wrong, r.Orphaned, r.Failed), judged)
		}
	}
	for _, chain := range []string{"nginx", "shop"} {
		if r := results[chain+"-0.01"]; r != nil {
			judged := "met"
			if uint64(r.Complete) != r.Sampled || r.Wrong > 0 {
				judged = "**missed**"
			}
			row(fmt.Sprintf("fidelity, `%s`, 1%% sampled", chain), "every sampled trace complete",
				fmt.Sprintf("%d of %d complete, %d wrong", r.Complete, r.Sampled, r.Wrong), judged)
		}
	}
	cpu := func(key, what string, limit float64) {
		if r := results[key]; r != nil {
			row(what, fmt.Sprintf("≤ %.2f × untraced", limit), ratio(r.Ratio.CPU)+"; untraced by untraced "+ratio(r.Control.CPU), verdict(r.Ratio.CPU, limit))
		}
	}
	cpu("nginx-0.01", "CPU of the whole machine per request, `nginx`, 1% sampled", 1.02)
	cpu("nginx-1", "the same at 100%", 1.12)
	if r := results["nginx-0.01"]; r != nil {
		row("agent's own CPU, `nginx` saturated, 1% sampled", "≤ 0.02 cores", fmt.Sprintf("%.3f cores", r.Agent.Cores), atMost(r.Agent.Cores, 0.02))
	}
	peak := 0.0
	for _, r := range results {
		peak = max(peak, r.Agent.PeakRSS)
	}
	row("agent's memory, highest peak of all runs", "≤ 60 MiB", fmt.Sprintf("%.1f MiB", peak), atMost(peak, 60))
	if r := results["nginx-1-soak"]; r != nil && len(r.Agent.Memory) >= 4 {
		m := r.Agent.Memory
		first, last := m[len(m)/4], m[len(m)-1]
		row(fmt.Sprintf("the same over %d requests, `nginx`, 100%% sampled", r.Requests), "flat",
			fmt.Sprintf("%.1f MiB after %d requests, %.1f MiB after all; %d of %d complete, %d wrong", first.RSS, first.Requests, last.RSS, r.Complete, r.Sampled, r.Wrong),
			atMost(last.RSS, first.RSS*1.1))
	}
	for _, r := range results {
		fmt.Fprintf(&b, "\nMeasured on %s, shared and noisy, by `make cost`; every ratio is the median over interleaved rounds with its 95%% interval.\n", machine(r))
		break
	}
	return b.String()
}

// costDoc is the body of docs/cost.md.
func costDoc(results map[string]*demoResult) string {
	var b strings.Builder
	for _, key := range []string{"nginx-0", "nginx-0.01", "nginx-1", "shop-0.01", "shop-1"} {
		r := results[key]
		if r == nil {
			continue
		}
		fmt.Fprintf(&b, "## `%s`, %v%% sampled\n\n", r.Chain, 100*r.Sample)
		fmt.Fprintf(&b, "%s; %d connections; %d rounds.\n\n", machine(r), r.Concurrency, r.Rounds)
		fmt.Fprintln(&b, "| | untraced | traced | ratio | control: untraced / untraced |\n|---|---|---|---|---|")
		fmt.Fprintf(&b, "| requests/s | %.0f | %.0f | %s | %s |\n", r.Baseline.RPS, r.RPS, ratio(r.Ratio.RPS), ratio(r.Control.RPS))
		fmt.Fprintf(&b, "| machine CPU per request, µs | %.2f | %.2f | %s | %s |\n\n", r.Baseline.CPU, r.CPU, ratio(r.Ratio.CPU), ratio(r.Control.CPU))
		fmt.Fprintf(&b, "Agent: %.3f cores, %.1f MiB (peak %.1f). Of %d requests %d failed, %d were sampled: %d complete, %d incomplete, %d wrong, %d orphaned spans.\n\n",
			r.Agent.Cores, r.Agent.RSS, r.Agent.PeakRSS, r.Requests, r.Failed, r.Sampled, r.Complete, r.Incomplete, r.Wrong, r.Orphaned)
		fmt.Fprintln(&b, "| kernel program | runs/request | ns/run | ns/request |\n|---|---|---|---|")
		total := 0.0
		for _, p := range r.Programs {
			runs := float64(p.Runs) / max(float64(r.Requests), 1)
			total += runs * p.NsPerRun
			fmt.Fprintf(&b, "| %s | %.2f | %.0f | %.0f |\n", p.Name, runs, p.NsPerRun, runs*p.NsPerRun)
		}
		fmt.Fprintf(&b, "| all | | | %.0f |\n\n", total)
		for _, w := range r.Warnings {
			fmt.Fprintf(&b, "Warning of the run: %s\n\n", w)
		}
	}
	return b.String()
}
