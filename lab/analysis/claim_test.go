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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, want, got, "%s differs (go test -update writes it anew)", path)
}

// writeAnswers is every row and sentence that a reader may meet.
func writeAnswers(s *analysis.Summary) []byte {
	var b bytes.Buffer
	if s.Smoke != "" {
		fmt.Fprintf(&b, "%s\n", s.Smoke)
	}
	for _, q := range s.Answers {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", q.ID, q.Ask, q.Sentence())
		for _, c := range q.Claims {
			fmt.Fprintf(&b, "  %s\n", c.Subject)
			for _, r := range c.Rows() {
				fmt.Fprintf(&b, "    %s\n", strings.Join(r.Texts(), " | "))
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

func TestRows(t *testing.T) {
	for _, c := range []struct{ experiment, profile string }{
		{"coroot", "quick"}, {"coroot", "smoke"}, {"chainscope-nginx", "quick"}, {"null", "quick"}, {"thesis", "quick"},
	} {
		m, runs := generate(t, c.experiment, c.profile, analysistest.Model{Seed: 7, Noise: 0.03, Factor: func(workload, load, tracer string, rate float64, metric string) float64 {
			if metric == record.CPUMachine {
				metric = record.CPUService
			}
			return growing("api-basic", load, tracer, rate, metric)
		}})
		s := analyse(t, m, runs)
		text := writeAnswers(s)
		golden(t, c.experiment+"-"+c.profile+".txt", text)
		for _, bad := range []string{"NaN", "Inf", " -"} {
			assert.False(t, bytes.Contains(text, []byte(bad)), "%s %s holds %q", c.experiment, c.profile, bad)
		}
		for _, q := range s.Answers {
			for _, cl := range q.Claims {
				// A smoke test does not run all that the claims are about.
				if len(cl.Findings)+len(cl.Missing) == 0 && c.profile != "smoke" {
					t.Errorf("%s %s has no answer: %+v", q.ID, cl.Metric, cl)
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
			t.Errorf("%s: %d of %d", c.name, claim.Distinguishable, claim.Comparisons)
		}
		if row := claim.Rows()[0]; claim.Findings[0].Effect.NoControl != (c.told > 0) || strings.HasSuffix(row.Verdict, "†") != (c.told > 0) {
			t.Errorf("%s: %+v", c.name, row)
		}
	}
}

// What the instrumentation costs: the baseline, of which there are two runs in a round, against the service
// without it.
func TestTheBaselineAgainstAnotherTracer(t *testing.T) {
	m, runs, err := analysistest.Make(mustOpen(t, "thesis"), "quick", analysistest.Model{Seed: 9, Noise: 0.01})
	require.NoError(t, err)
	for i := range runs {
		if runs[i].Tracer == "bare" {
			runs[i].Values[record.CPUService] /= 1.25
		}
	}
	s := analyse(t, m, runs)
	i := slices.IndexFunc(s.Answers, func(a analysis.Answer) bool { return a.ID == "I1" })
	c := s.Answers[i].Claims[0]
	if c.Comparisons != len(s.Cells) || c.Distinguishable != c.Comparisons || c.Rows()[0].Base != "bare" {
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
			assert.Equal(t, slices.Contains(of.Where.Tracers, "noop"), compared, "%s, claim %d: is the baseline compared?", q.ID, j+1)
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
	c := analyse(t, m, runs).Answers[0].Claims[0]
	row := c.Rows()[0]
	if e := c.Findings[0].Effect; e.As != analysis.Difference || e.Estimate.Median < 60 || e.Estimate.Median > 120 || !strings.HasSuffix(row.Effect, " µs/request") || row.Base != m.Experiment.Tracers[0].Name {
		t.Errorf("half of 180 µs was added: %+v, %+v", e, row)
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
	if len(c.Findings) != 0 || len(c.Missing) != 2 || !strings.Contains(c.Missing[0], "head at 10%") || s.Answers[1].Sentence() != "Not measured: "+c.Missing[0]+"." {
		t.Errorf("%+v", c)
	}
}

func TestFidelityHasWilsonIntervals(t *testing.T) {
	m, runs := generate(t, "chainscope-nginx", "quick", analysistest.Model{Seed: 9, Noise: 0.01})
	s := analyse(t, m, runs)
	require.Len(t, s.Fidelity, 9, "variants with traces")
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
		lost            float64 // of the sampled traces
		least, most     float64
		metric          string
		effect, verdict string // the effect by its beginning
	}{
		{0, 0.999, 0, record.Complete, "100.000%", "met (≥ 99.9%)"},
		{0.01, 0.999, 0, record.Complete, "99.0", "missed (≥ 99.9%)"},
		{0.001, 0.999, 0, record.Complete, "99.90", "not resolved (≥ 99.9%)"},
		{0.0011, 0.999, 0, record.Complete, "99.89", "not resolved (≥ 99.9%)"},
		{0, 0, 0.001, record.Wrong, "0.000%", "met (≤ 0.1%)"},
		{0, 0, 0, record.Wrong, "0.000%", "–"},
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
		if rows := got.Rows(); len(rows) != 1 || !strings.HasPrefix(rows[0].Effect, c.effect) || rows[0].Verdict != c.verdict || rows[0].N != 20000 {
			t.Errorf("%v: %+v", c, rows)
		}
	}
}
