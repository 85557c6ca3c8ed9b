package analysis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
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

func mustOpen(t testing.TB, name string) *experiment.Experiment {
	t.Helper()
	e, err := experiment.Open(name)
	require.NoError(t, err)
	return e
}

func generate(t *testing.T, name, profile string, model analysistest.Model) (*record.Manifest, []record.Run) {
	t.Helper()
	if name == "thesis" {
		name = "testdata/thesis.yaml" // a grid that stays as it is
	}
	m, runs, err := analysistest.Make(mustOpen(t, name), profile, model)
	require.NoError(t, err)
	return m, runs
}

func analyse(t *testing.T, m *record.Manifest, runs []record.Run) *analysis.Summary {
	t.Helper()
	s, err := analysis.Analyse(m, runs)
	require.NoError(t, err)
	return s
}

// growing is 20% more CPU at a rate of 100% on the light endpoint, 5% on others.
func growing(workload, _, _ string, rate float64, metric string) float64 {
	if metric != record.CPUService {
		return 1
	}
	if workload == "api-basic" {
		return 1 + 0.2*rate
	}
	return 1 + 0.05*rate
}

func variantOf(t *testing.T, s *analysis.Summary, cell, variant string) *analysis.Variant {
	t.Helper()
	for i := range s.Cells {
		for j := range s.Cells[i].Variants {
			if v := &s.Cells[i].Variants[j]; s.Cells[i].Name == cell && v.Name == variant {
				return v
			}
		}
	}
	t.Fatalf("there is no %s in %s", variant, cell)
	return nil
}

func TestKnownEffectsAreRecovered(t *testing.T) {
	m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 3, Rounds: 20, Noise: 0.02, Factor: growing})
	s := analyse(t, m, runs)
	held, total := 0, 0
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			if v.Role != analysis.Traced {
				continue
			}
			e := v.Effect(record.CPUService)
			if e == nil || e.As != analysis.Ratio || e.Estimate.N != 20 {
				t.Fatalf("%s %s: %+v", c.Name, v.Name, e)
			}
			truth := growing(c.Workload, "", "", v.Rate, record.CPUService)
			total++
			if e.Estimate.Lo <= truth && truth <= e.Estimate.Hi {
				held++
			}
			if math.Abs(e.Estimate.Median-truth) > 0.03 {
				t.Errorf("%s %s: %v where %.3f was put in", c.Name, v.Name, e.Estimate, truth)
			}
			if truth >= 1.09 && !e.Verdict.Distinguishable {
				t.Errorf("%s %s: %+v is not distinguishable", c.Name, v.Name, e)
			}
		}
	}
	if share := float64(held) / float64(total); share < 0.88 {
		t.Errorf("the 95%% intervals hold the truth in %d of %d comparisons", held, total)
	}
}

func TestNothingIsFoundWhereNothingIs(t *testing.T) {
	m, runs := generate(t, "thesis", "full", analysistest.Model{Seed: 11, Rounds: 12, Noise: 0.03})
	s := analyse(t, m, runs)
	found, total := 0, 0
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			for _, key := range []string{record.CPUService, record.P95, record.P99, record.MemService} {
				if v.Role == analysis.Traced {
					total++
					if v.Effect(key).Verdict.Distinguishable {
						found++
					}
				}
			}
		}
		for _, v := range c.Variants {
			if v.Role == analysis.Again && v.Effect(record.CPUService).Verdict.Distinguishable {
				t.Errorf("%s: the control is distinguishable from the baseline", c.Name)
			}
		}
	}
	if share := float64(found) / float64(total); share > 0.03 {
		t.Errorf("%d of %d comparisons without an effect are said to have one", found, total)
	}
}

func TestAdditiveMetricsAreComparedByDifference(t *testing.T) {
	m, runs := generate(t, "chainscope-nginx", "quick", analysistest.Model{Seed: 5, Noise: 0.02})
	s := analyse(t, m, runs)
	e := variantOf(t, s, "nginx/closed-32", "tare@1").Effect(record.CPUTracer)
	if e == nil || e.As != analysis.Difference || !e.Verdict.Distinguishable || math.Abs(e.Estimate.Median-32) > 4 {
		t.Errorf("CPU of the tracer: %+v", e)
	}
}

// A metric that no run of the baseline has is 0 there if it is additive, and
// unknown if not.
func TestMetricsThatTheBaselineLacks(t *testing.T) {
	m, runs := generate(t, "thesis", "quick", analysistest.Model{Seed: 5, Noise: 0.02})
	for i := range runs {
		if runs[i].Tracer == "none" {
			delete(runs[i].Values, record.NetExport)
			delete(runs[i].Values, record.P95)
		}
	}
	s := analyse(t, m, runs)
	v := variantOf(t, s, "api-basic/500rps", "head@1")
	if e := v.Effect(record.NetExport); e == nil || math.Abs(e.Estimate.Median-420) > 1 {
		t.Errorf("export: %+v", e)
	}
	assert.Nil(t, v.Effect(record.P95), "p95 is compared")
	if p95 := v.Measure(record.P95); p95 == nil || p95.Value.N != 6 {
		t.Errorf("p95 itself is lost: %+v", p95)
	}
}

// The baseline's value is the mean of its runs where both count, else the one
// that does; a round without the variant is not compared.
func TestPairing(t *testing.T) {
	e := &experiment.Experiment{
		Name: "e", Metrics: []string{record.CPUService}, Workloads: []experiment.Workload{{Name: "w"}}, Loads: []experiment.Load{{Name: "l"}},
		Tracers: []experiment.Tracer{{Name: "none", Driver: "none"}, {Name: "t", Driver: "env"}},
	}
	m := &record.Manifest{Version: record.Version, Experiment: e}
	var runs []record.Run
	add := func(round int, variant, tracer string, v float64, failed string) {
		runs = append(runs, record.Run{ID: variant + string(rune('0'+round)), Kind: record.Measured, Cell: "w/l", Workload: "w", Load: "l",
			Variant: variant, Tracer: tracer, Round: round, Values: map[string]float64{record.CPUService: v}, Failed: failed})
	}
	add(0, "none", "none", 10, "")
	add(0, "none again", "none", 20, "")
	add(0, "t", "t", 30, "")
	add(1, "none", "none", 10, "broken")
	add(1, "none again", "none", 20, "")
	add(1, "t", "t", 30, "")
	add(2, "none", "none", 10, "")
	add(2, "none again", "none", 20, "")
	add(2, "t", "t", 30, "broken")
	add(3, "none", "none", 10, "broken")
	add(3, "none again", "none", 20, "broken")
	add(3, "t", "t", 30, "")
	s := analyse(t, m, runs)
	want := []analysis.RoundValue{{Round: 0, Value: 2}, {Round: 1, Value: 1.5}}
	assert.Equal(t, want, variantOf(t, s, "w/l", "t").Effect(record.CPUService).Rounds, "rounds")
	want = []analysis.RoundValue{{Round: 0, Value: 2}, {Round: 2, Value: 2}}
	assert.Equal(t, want, s.Cells[0].Control[0].Rounds, "control")
}

func TestSummaryDependsOnTheRecordsAlone(t *testing.T) {
	m, runs := generate(t, "coroot", "quick", analysistest.Model{Seed: 2, Noise: 0.05, Factor: growing})
	before, err := json.Marshal(runs)
	require.NoError(t, err)
	first, err := json.Marshal(analyse(t, m, runs))
	require.NoError(t, err)
	if after, err := json.Marshal(runs); err != nil || string(after) != string(before) {
		t.Errorf("the records were changed (%v)", err)
	}
	shuffled := slices.Clone(runs)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	second, err := json.Marshal(analyse(t, m, shuffled))
	require.NoError(t, err)
	assert.Equal(t, string(second), string(first), "the order of the records changes the summary")
	var read analysis.Summary
	require.NoError(t, json.Unmarshal(first, &read))
	again, err := json.Marshal(&read)
	if err != nil || string(again) != string(first) {
		t.Errorf("a summary that was read is not the one that was written (%v)", err)
	}
}

func TestUnusableRecordsAreRefused(t *testing.T) {
	m, runs := generate(t, "null", "smoke", analysistest.Model{Seed: 1})
	twice := append(slices.Clone(runs), runs[0])
	foreign := slices.Clone(runs)
	foreign[0].Tracer = "stranger"
	newer := slices.Clone(runs)
	newer[0].Kind = "dreamt"
	for _, c := range []struct {
		m    *record.Manifest
		runs []record.Run
		want string
	}{
		{nil, runs, "no experiment"},
		{&record.Manifest{}, runs, "no experiment"},
		{&record.Manifest{Experiment: &experiment.Experiment{}}, runs, "no tracers"},
		{m, nil, "no runs"},
		{m, twice, "are both of"},
		{m, foreign, "stranger"},
		{m, newer, "dreamt"},
	} {
		if s, err := analysis.Analyse(c.m, c.runs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v: want an error with %q", s, err, c.want)
		}
	}
}

// With every run of the baseline excluded there is nothing to compare with, and
// the summary says so rather than failing.
func TestWithoutABaselineNothingIsCompared(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 1, Noise: 0.02})
	for i := range runs {
		if runs[i].Tracer == "none" {
			runs[i].Failed = "broken"
		}
	}
	s := analyse(t, m, runs)
	for _, c := range s.Cells {
		for _, v := range c.Variants {
			for _, x := range v.Metrics {
				if x.Effect != nil && !strings.Contains(x.Metric, "sampled") && x.Effect.Estimate.N > 0 {
					t.Errorf("%s %s %s is compared with nothing: %+v", c.Name, v.Name, x.Metric, x.Effect)
				}
			}
		}
	}
	assert.True(t, slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "No run of these counts") }), "notes: %q", s.Notes)
}

func FuzzRoundValue(f *testing.F) {
	for _, s := range []string{"[0,1.5]", "[3,-2e300]", "[]", "[1.5,1]", `["a",1]`, "null", "{}", "[1,1e999]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v analysis.RoundValue
		if json.Unmarshal(b, &v) != nil {
			return
		}
		out, err := json.Marshal(v)
		require.NoError(t, err, "%s was read as %v, which cannot be written", b, v)
		var again analysis.RoundValue
		if err := json.Unmarshal(out, &again); err != nil || again != v {
			t.Fatalf("%s became %v (%v)", out, again, err)
		}
	})
}

// What was run once or twice is called a smoke test, and has no findings of cost.
func TestSmoke(t *testing.T) {
	for _, c := range []struct {
		rounds int
		smoke  bool
	}{{5, true}, {6, false}} {
		m, runs := generate(t, "coroot", "smoke", analysistest.Model{Seed: 1, Rounds: c.rounds, Noise: 0.02})
		s := analyse(t, m, runs)
		if smoke := strings.HasPrefix(s.Smoke, "smoke: shows that it runs"); smoke != c.smoke || !smoke && s.Smoke != "" {
			t.Errorf("%d rounds: %q", c.rounds, s.Smoke)
		}
	}
	// What is counted needs no rounds: one that counts is no smoke test, and measures no cost.
	m, runs := generate(t, "chainscope-nginx", "smoke", analysistest.Model{Seed: 1, Rounds: 1, Noise: 0.02})
	if s := analyse(t, m, runs); !strings.HasPrefix(s.Smoke, "Counts alone") {
		t.Errorf("one round that counts: %q", s.Smoke)
	}
}
