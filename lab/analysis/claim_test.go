package analysis_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew); got:\n%s", path, got)
	}
}

// writeAnswers is every sentence that a reader may meet.
func writeAnswers(s *analysis.Summary) []byte {
	var b bytes.Buffer
	if s.Smoke != "" {
		fmt.Fprintf(&b, "%s\n", s.Smoke)
	}
	for _, f := range s.Found {
		fmt.Fprintf(&b, "found: %s\n", f)
	}
	for _, q := range s.Answers {
		fmt.Fprintf(&b, "\n%s: %s\n", q.ID, q.Ask)
		for _, c := range q.Claims {
			if c.First {
				fmt.Fprintf(&b, "  first: %s\n", c.Short)
			} else {
				fmt.Fprintf(&b, "  short: %s\n", c.Short)
			}
			fmt.Fprintf(&b, "  %s: %s\n", c.Metric, c.Summary)
			for _, r := range c.Ranges {
				fmt.Fprintf(&b, "    %s\n", r.Text)
			}
			for _, f := range c.Findings {
				fmt.Fprintf(&b, "    - %s %s: %s\n", f.Cell, f.Variant, f.Text)
			}
			for _, m := range c.Missing {
				fmt.Fprintf(&b, "    missing: %s\n", m)
			}
		}
	}
	b.WriteString("\n")
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.Bytes()
}

func TestSentences(t *testing.T) {
	for _, c := range []struct{ experiment, profile string }{
		{"thesis", "quick"}, {"coroot", "quick"}, {"coroot", "smoke"}, {"chainscope-nginx", "quick"}, {"null", "quick"},
	} {
		m, runs := generate(t, c.experiment, c.profile, analysistest.Model{Seed: 7, Noise: 0.03, Factor: func(workload, load, tracer string, rate float64, metric string) float64 {
			if metric == record.CPUMachine {
				metric = record.CPUService
			}
			return growing("api-basic", load, tracer, rate, metric)
		}})
		s := analyse(t, m, runs)
		golden(t, c.experiment+"-"+c.profile+".txt", writeAnswers(s))
		for _, q := range s.Answers {
			for _, cl := range q.Claims {
				// A smoke test does not run all that the claims are about.
				if cl.Summary == "" || len(cl.Findings)+len(cl.Missing) == 0 && c.profile != "smoke" {
					t.Errorf("%s %s has no answer: %+v", q.ID, cl.Metric, cl)
				}
				if text := cl.Summary; strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "-") && strings.Contains(text, " -") {
					t.Errorf("%s %s: %s", q.ID, cl.Metric, text)
				}
			}
		}
	}
}

// Another tracer is compared at the same rate, in the same cell and round.
func TestAgainstAnotherTracer(t *testing.T) {
	m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 9, Rounds: 12, Noise: 0.01, Factor: func(_, _, tracer string, rate float64, metric string) float64 {
		switch {
		case metric != record.CPUService:
			return 1
		case tracer == "parent":
			return 1.5 * (1 + rate)
		}
		return 1 + rate
	}})
	s := analyse(t, m, runs)
	c := s.Answers[1].Claims[0] // RQ2: CPU of parent against head
	if c.Against != "head" || c.Comparisons != 75 || c.Distinguishable != 75 {
		t.Fatalf("%+v", c)
	}
	for _, f := range c.Findings {
		if e := f.Effect.Estimate; e.Median < 1.47 || e.Median > 1.53 || e.N != 12 || f.Effect.Against != "head@"+strings.TrimPrefix(f.Variant, "parent@") {
			t.Errorf("%s %s: %+v", f.Cell, f.Variant, f.Effect)
		}
	}
	spans := s.Answers[2].Claims[2] // RQ3: spans of adaptive against head
	for _, f := range spans.Findings {
		if f.Rate < 0.3 || f.Load == "50rps" { // few spans have wide intervals
			continue
		}
		if r := f.Effect.Relative; r == nil || r.Median < 1.4 || r.Median > 1.6 {
			t.Errorf("%s %s: half as many again were put in: %+v", f.Cell, f.Variant, f.Effect)
		}
	}
}

// What no run of the baseline has, as secrets that are stored, has no control: the interval says whether two tracers
// differ. Where runs of the baseline have it, but none of the second ones, nothing is told.
func TestAgainstAnotherTracerWithoutAControl(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks func(r *record.Run) bool
		told  int
	}{
		{"nothing", func(r *record.Run) bool { return r.Tracer == "none" }, 75},
		{"no second run", func(r *record.Run) bool { return r.Tracer == "none" && strings.HasSuffix(r.Variant, "again") }, 0},
	} {
		m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 9, Rounds: 12, Noise: 0.01, Factor: func(_, _, tracer string, _ float64, metric string) float64 {
			if metric == record.CPUService && tracer == "parent" {
				return 1.5
			}
			return 1
		}})
		for i := range runs {
			if c.lacks(&runs[i]) {
				delete(runs[i].Values, record.CPUService)
			}
		}
		claim := analyse(t, m, runs).Answers[1].Claims[0] // RQ2: CPU of parent against head
		if claim.Against != "head" || claim.Comparisons != 75 || claim.Distinguishable != c.told {
			t.Errorf("%s: %d of %d: %s", c.name, claim.Distinguishable, claim.Comparisons, claim.Summary)
		}
		if text := claim.Findings[0].Text; strings.Contains(text, "no control") != (c.told > 0) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

// What the instrumentation costs: the baseline, of which there are two runs in a round, against the service
// without it.
func TestTheBaselineAgainstAnotherTracer(t *testing.T) {
	m, runs, err := analysistest.Make(mustOpen(t, "thesis"), "quick", analysistest.Model{Seed: 9, Noise: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		if runs[i].Tracer == "bare" {
			runs[i].Values[record.CPUService] /= 1.25
		}
	}
	s := analyse(t, m, runs)
	i := slices.IndexFunc(s.Answers, func(a analysis.Answer) bool { return a.ID == "I1" })
	c := s.Answers[i].Claims[0]
	if c.Comparisons != len(s.Cells) || c.Distinguishable != c.Comparisons || !strings.Contains(c.Summary, " against bare in ") {
		t.Fatalf("%+v", c)
	}
	for _, f := range c.Findings {
		if e := f.Effect.Estimate; f.Variant != "noop" || e.Median < 1.23 || e.Median > 1.27 || e.N != 8 {
			t.Errorf("%s %s: %+v", f.Cell, f.Variant, f.Effect)
		}
	}
	for i, q := range m.Experiment.Questions {
		for j, of := range q.Claims {
			compared := slices.ContainsFunc(s.Answers[i].Claims[j].Findings, func(f analysis.Finding) bool { return f.Variant == "noop" })
			if named := slices.Contains(of.Where.Tracers, "noop"); compared != named {
				t.Errorf("%s, claim %d names the baseline: %v, compares it: %v", q.ID, j+1, named, compared)
			}
		}
	}
}

// A claim may ask how much is added, of what is else compared by ratio.
func TestAClaimOfWhatIsAdded(t *testing.T) {
	m, runs := generate(t, "payload", "quick", analysistest.Model{Seed: 9, Noise: 0.01, Factor: func(_, _, tracer string, _ float64, metric string) float64 {
		if metric == record.CPUService && tracer == "head" {
			return 1.5
		}
		return 1
	}})
	where := experiment.Subset{Workloads: []string{"body-1MB"}, Tracers: []string{"head"}}
	m.Experiment.Questions = []experiment.Question{{ID: "Q", Claims: []experiment.Claim{{Metric: record.CPUService, Where: where, As: "added"}}}}
	f := analyse(t, m, runs).Answers[0].Claims[0].Findings[0]
	if e := f.Effect; e.As != analysis.Difference || e.Estimate.Median < 60 || e.Estimate.Median > 120 || !strings.Contains(f.Text, " µs/request against no instrumentation") {
		t.Errorf("half of 180 µs was added: %+v", f.Effect)
	}
}

func TestWhatCannotBeComparedIsSaid(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 9, Noise: 0.01})
	for i := range runs {
		if runs[i].Variant == "head@0.1" {
			runs[i].Failed = "broken"
		}
	}
	s := analyse(t, m, runs)
	c := s.Answers[1].Claims[0]
	if len(c.Findings) != 0 || len(c.Missing) != 2 || !strings.Contains(c.Missing[0], "head at 10%") || c.Summary != "no comparison could be made" {
		t.Errorf("%+v", c)
	}
}

func TestFidelityHasWilsonIntervals(t *testing.T) {
	m, runs := generate(t, "chainscope-nginx", "quick", analysistest.Model{Seed: 9, Noise: 0.01})
	s := analyse(t, m, runs)
	if len(s.Fidelity) != 9 {
		t.Fatalf("%d variants have traces", len(s.Fidelity))
	}
	for _, f := range s.Fidelity {
		sum := f.Classes["complete"] + f.Classes["no span arrived"] + f.Classes["wrong"]
		if f.Traces != sum {
			t.Errorf("%s: %d traces, of which %d are in a class", f.Variant, f.Traces, sum)
		}
		// For no event in n the upper limit is z²/(n+z²).
		if z2, n := 3.841458821, float64(f.Traces); f.Wrong.Share != 0 || f.Wrong.Lo != 0 || f.Wrong.Hi < 0.999*z2/(n+z2) || f.Wrong.Hi > 1.001*z2/(n+z2) {
			t.Errorf("%s: wrong %+v", f.Variant, f.Wrong)
		}
	}
}

// A share of the traces has a target of its own: nothing is compared with it.
func TestTargetOfAShare(t *testing.T) {
	for _, c := range []struct {
		lost         float64 // of the sampled traces
		least, most  float64
		metric, want string
	}{
		{0, 0.999, 0, record.Complete, "target (at least 99.9%): met; 100.000%"},
		{0.01, 0.999, 0, record.Complete, "target (at least 99.9%): missed; 99.0"},
		{0.001, 0.999, 0, record.Complete, "target (at least 99.9%): met, but for the interval; 99.90"},
		{0.0011, 0.999, 0, record.Complete, "target (at least 99.9%): missed, but for the interval; 99.89"},
		{0, 0, 0.001, record.Wrong, "target (at most 0.1%): met; 0.000%"},
		{0, 0, 0, record.Wrong, "0.000%"},
	} {
		m, runs := generate(t, "chainscope-hotel", "quick", analysistest.Model{Seed: 3, Noise: 0.01})
		for i := range runs {
			if r := &runs[i]; len(r.Fidelity) > 0 {
				const traces = 20000
				lost := int(c.lost * traces)
				r.Fidelity = map[string]int{record.FidelityComplete: traces - lost, "missing": lost, record.FidelityWrong: 0, record.CallsByMethod: 7}
			}
		}
		where := experiment.Subset{Loads: []string{"closed-1000"}, Tracers: []string{"tare"}}
		m.Experiment.Questions = []experiment.Question{{ID: "Q", Claims: []experiment.Claim{{Metric: c.metric, Where: where, AtLeast: c.least, AtMost: c.most}}}}
		got := analyse(t, m, runs).Answers[0].Claims[0]
		if len(got.Findings) != 1 || !strings.HasPrefix(got.Findings[0].Text, c.want) || !strings.HasSuffix(got.Findings[0].Text, "n=20000) of the traces") {
			t.Errorf("%v: %+v, want %s", c, got, c.want)
		}
	}
}
