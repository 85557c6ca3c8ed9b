package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/lab/stats"
)

// pair is a row: a benchmark of ours beside that of what it replaces.
type pair struct {
	library, what string
	theirs, ours  string // names of benchmarks, with package and number of CPUs
	unit          string // of benchfmt: sec/op, cpu-sec/op
	target        float64
	note          string
}

const module = "github.com/tare-trace/tare/otel/"

// pairs of the table. A target is an upper bound of ours by theirs.
var pairs = []pair{
	{"lean", "span with 5 attributes, started, ended, exported: CPU", "lean SetAttributes/pipeline=sdk/serial-2", "lean SetAttributes/pipeline=lean/serial-2", "cpu-sec/op", 0.25, ""},
	{"lean", "the same by typed setters", "lean TypedSetters/pipeline=sdk/serial-2", "lean TypedSetters/pipeline=lean/serial-2", "cpu-sec/op", 0.25, ""},
	{"lean", "span that is not sampled", "lean UnsampledRoot/pipeline=sdk/serial-2", "lean UnsampledRoot/pipeline=lean/serial-2", "cpu-sec/op", 0, ""},
	{"leanhttp", "request that is not sampled", "lean/leanhttp Handler/unsampled/official-2", "lean/leanhttp Handler/unsampled/lean-2", "sec/op", 0.25, ""},
	{"leanhttp", "request that is sampled", "lean/leanhttp Handler/sampled/official-2", "lean/leanhttp Handler/sampled/lean-2", "sec/op", 0.25, ""},
	{"leanredis", "command, parent not sampled", "lean/leanredis Command/unsampled/official-2", "lean/leanredis Command/unsampled/lean-2", "sec/op", 0.25, ""},
	{"leanredis", "command, sampled", "lean/leanredis Command/sampled/official-2", "lean/leanredis Command/sampled/lean-2", "sec/op", 0.25, ""},
	{"otlphttp", "request with 512 spans", "lean/otlphttp Export/official/plain-2", "lean/otlphttp Export/lean/plain-2", "sec/op", 0, "the official exporter encodes here, lean has done so before"},
	{"adaptive", "decision at 1%, against TraceIDRatioBased, 1 CPU", "adaptive ShouldSample/rate=1%/sampler=TraceIDRatioBased", "adaptive ShouldSample/rate=1%/sampler=adaptive", "sec/op", 1.2, ""},
	{"adaptive", "2 goroutines", "adaptive ShouldSample/rate=1%/sampler=TraceIDRatioBased-2", "adaptive ShouldSample/rate=1%/sampler=adaptive-2", "sec/op", 1.2, ""},
	{"adaptive", "8 goroutines", "adaptive ShouldSample/rate=1%/sampler=TraceIDRatioBased-8", "adaptive ShouldSample/rate=1%/sampler=adaptive-8", "sec/op", 1.2, ""},
	{"adaptive", "with a rate for each route, 8 goroutines", "adaptive ShouldSample/rate=1%/sampler=TraceIDRatioBased-8", "adaptive ShouldSample/rate=1%/sampler=adaptive-routes-8", "sec/op", 1.2, ""},
	{"ratelimit", "decision, against ParentBased(TraceIDRatioBased)", "ratelimit Decision/of=ParentBased(TraceIDRatioBased)/root-2", "ratelimit Decision/of=ratelimit,mode=leaky/root-2", "sec/op", 0, "TraceIDRatioBased alone obeys no parent"},
	{"contextaware", "decision with one rule, against the same", "contextaware Decision/of=ParentBased(TraceIDRatioBased)/root-2", "contextaware Decision/of=contextaware,rules=1,on=name/root-2", "sec/op", 0, ""},
	{"keep", "trace of 6 spans, looked at and dropped, against the SDK recording it", "keep Trace/record/spans=6-2", "keep Trace/dropped/spans=6-2", "sec/op", 0, ""},
	{"keep", "the same against sampling and exporting everything", "keep Trace/all/spans=6-2", "keep Trace/dropped/spans=6-2", "sec/op", 0, ""},
}

// alone are benchmarks with nothing to compare with.
var alone = []struct{ what, name string }{
	{"no rules", "redact Rules/none/clean-2"},
	{"20 rules by key", "redact Rules/keys=20/clean-2"},
	{"100 rules by key", "redact Rules/keys=100/clean-2"},
	{"5 regular expressions", "redact Rules/regexp=5/clean-2"},
	{"20 regular expressions", "redact Rules/regexp=20/clean-2"},
	{"8 detectors", "redact Rules/detectors=8/clean-2"},
	{"the default", "redact Configs/Default/clean-2"},
	{"the default, span with four secrets", "redact Configs/Default/dirty-2"},
	{"allow-list", "redact Configs/allow/clean-2"},
}

// samples of every benchmark, by "package Name-cpus" and unit, in the order of
// the rounds.
type samples map[string]map[string][]float64

func (s samples) of(name, unit string) []float64 { return s[name][unit] }

// libraries writes the tables of otel/README.md.
func libraries(benchmarks, results, readme string) error {
	s, commit, err := readBenchmarks(benchmarks)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("Whole services, official pipeline and lean one side by side (`tare bench run pipelines`):\n\n")
	if err := claims(&b, filepath.Join(results, "pipelines"), claim{"P1", 0}, claim{"P2", 0}); err != nil {
		return err
	}
	b.WriteString("One request in a hundred fails, one in two hundred is slow, where a way of sampling has a rate it is 10% (`tare bench run strategies`):\n\n")
	strategies := filepath.Join(results, "strategies")
	if err := claims(&b, strategies, claim{"S1", said}, claim{"S3", said}); err != nil {
		return err
	}
	b.WriteString("Each library by itself, `make otel-cost`; time of ours by theirs, median over interleaved rounds with its 95% interval:\n\n")
	b.WriteString("| library | what | official | Tare | Tare by official | target | |\n|---|---|---|---|---|---|---|\n")
	for _, p := range pairs {
		theirs, ours := s.of(p.theirs, p.unit), s.of(p.ours, p.unit)
		if len(theirs) == 0 || len(ours) == 0 {
			return fmt.Errorf("%s has no %q or no %q: run make otel-cost", benchmarks, p.theirs, p.ours)
		}
		r := stats.RatioInterval(ours, theirs)
		target, met := "", p.note
		if p.target > 0 {
			target, met = fmt.Sprintf("≤ %v", p.target), strings.TrimSpace(verdict(r, p.target)+" "+p.note)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %.2f (%.2f to %.2f, n = %d) | %s | %s |\n", p.library, p.what,
			cost(s, p.theirs, p.unit), cost(s, p.ours, p.unit), r.Median, r.Lo, r.Hi, r.N, target, met)
	}
	b.WriteString("\n`redact`, a span with 10 attributes and an exception:\n\n| rules | per span |\n|---|---|\n")
	for _, a := range alone {
		if len(s.of(a.name, "sec/op")) == 0 {
			return fmt.Errorf("%s has no %q: run make otel-cost", benchmarks, a.name)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", a.what, cost(s, a.name, "sec/op"))
	}
	fmt.Fprintf(&b, "\nBenchmarks measured at commit %s.\n", commit)
	return replace(readme, "otel-cost", b.String())
}

// cost is the median time and the allocations.
func cost(s samples, name, unit string) string {
	t := stats.Interval(s.of(name, unit)).Median * 1e9
	text := fmt.Sprintf("%.0f ns", t)
	if t >= 10_000 {
		text = fmt.Sprintf("%.1f µs", t/1000)
	}
	if a := s.of(name, "allocs/op"); len(a) > 0 {
		text += fmt.Sprintf(", %.0f allocations", stats.Interval(a).Median)
	}
	return text
}

func readBenchmarks(file string) (s samples, commit string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := gzip.NewReader(f)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	s = samples{}
	r := benchfmt.NewReader(text, file)
	for r.Scan() {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			if e, bad := r.Result().(*benchfmt.SyntaxError); bad {
				return nil, "", e
			}
			continue
		}
		commit = result.GetConfig("commit")
		name := strings.TrimPrefix(result.GetConfig("pkg"), module) + " " + result.Name.String()
		if s[name] == nil {
			s[name] = map[string][]float64{}
		}
		for _, v := range result.Values {
			s[name][v.Unit] = append(s[name][v.Unit], v.Value)
		}
	}
	return s, commit, r.Err()
}

// claim of an experiment: the number of a claim of a question, or said.
type claim struct {
	question string
	number   int
}

// said stands for all claims of a question that its answer has a sentence for.
const said = -1

// read reads and analyses the results of an experiment.
func read(dir string) (*record.Manifest, *analysis.Summary, error) {
	m, runs, err := bench.Read(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("no results of this experiment (make help names the targets that measure): %w", err)
	}
	s, err := analysis.Analyse(m, runs)
	return m, s, err
}

// summary is what an experiment found.
func summary(dir string) (*analysis.Summary, error) {
	_, s, err := read(dir)
	return s, err
}

// measuredOn says how, where and of what the results of an experiment were measured.
func measuredOn(m *record.Manifest) string {
	return fmt.Sprintf("%d rounds, profile %s; %d CPUs, Linux %s, at commit %s.", m.Experiment.Profiles[m.Profile].Rounds, m.Profile, m.Machine.CPUs, m.Machine.Kernel, m.Commit)
}

// claims lists what an experiment found about some of its claims, finding by
// finding.
func claims(b *strings.Builder, dir string, wanted ...claim) error {
	manifest, s, err := read(dir)
	if err != nil {
		return err
	}
	b.WriteString("| metric | workload | base | variant | effect | 95% interval | n | verdict |\n|---|---|---|---|---|---|---|---|\n")
	for _, w := range withSaid(manifest.Experiment, wanted) {
		c, err := claimOf(s, dir, w)
		if err != nil {
			return err
		}
		for i, r := range c.Rows() {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d | %s |\n", r.Metric, c.Findings[i].Workload, r.Base, r.Variant, r.Effect, r.Interval, r.N, r.Verdict)
		}
	}
	b.WriteString("\n")
	return nil
}

// withSaid puts the claims that said stands for in its place, if there are any.
func withSaid(e *experiment.Experiment, wanted []claim) []claim {
	var list []claim
	for _, w := range wanted {
		n := len(list)
		for _, q := range e.Questions {
			for i, c := range q.Claims {
				if w.number == said && q.ID == w.question && c.Say != "" {
					list = append(list, claim{q.ID, i})
				}
			}
		}
		if len(list) == n {
			list = append(list, w)
		}
	}
	return list
}

// claimOf finds the answer to a claim of an experiment.
func claimOf(s *analysis.Summary, dir string, w claim) (analysis.ClaimAnswer, error) {
	i := slices.IndexFunc(s.Answers, func(a analysis.Answer) bool { return a.ID == w.question })
	if i < 0 || w.number < 0 || w.number >= len(s.Answers[i].Claims) {
		return analysis.ClaimAnswer{}, fmt.Errorf("%s has no claim %d of question %s", dir, w.number, w.question)
	}
	return s.Answers[i].Claims[w.number], nil
}
