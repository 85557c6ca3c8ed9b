package analysis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/record"
)

func excluded(s *analysis.Summary) map[string]string {
	out := map[string]string{}
	for _, r := range s.Rules {
		for _, e := range r.Excluded {
			out[e.Run] += r.Name
		}
	}
	return out
}

func TestEachRuleExcludesWhatItMust(t *testing.T) {
	strict := experiment.Rules{
		ErrorShare: 0.001, Achieved: 0.98, GeneratorLag: experiment.Duration(5 * time.Millisecond),
		Spread: 0.5, Answers: 50, Sampled: 6, Stolen: 0.2, Counted: 0.05,
	}
	set := func(key string, v float64) func(*record.Run) {
		return func(r *record.Run) { r.Values[key] = v }
	}
	for name, c := range map[string]struct {
		spoil func(*record.Run)
		rule  string // "": stays
	}{
		"failed":                     {func(r *record.Run) { r.Failed = "the service died" }, "failed"},
		"failed and more":            {func(r *record.Run) { r.Failed = "the service died"; r.Values[record.ErrorShare] = 1 }, "failed"},
		"errors":                     {set(record.ErrorShare, 0.002), "max_error_share"},
		"as many errors as allowed":  {set(record.ErrorShare, 0.001), ""},
		"not achieved":               {set(record.Throughput, 480), "min_achieved"},
		"just achieved":              {set(record.Throughput, 495), ""},
		"generator late":             {set(record.GeneratorLagP99, 5.1), "max_generator_lag_p99"},
		"generator in time":          {set(record.GeneratorLagP99, 5), ""},
		"few answers":                {func(r *record.Run) { r.Answers = 49 }, "min_answers"},
		"sampled too many":           {set(record.SampledShare, 0.2), "max_sampling_error"},
		"sampled too few":            {set(record.SampledShare, 0.02), "max_sampling_error"},
		"sampled too few as dropped": {func(r *record.Run) { r.Values[record.SampledShare], r.Values[record.SpansDropped] = 0.02, 1e6 }, ""},
		"too many though dropped":    {func(r *record.Run) { r.Values[record.SampledShare], r.Values[record.SpansDropped] = 0.2, 1e6 }, "max_sampling_error"},
		"server counts fewer":        {set(record.ServerThroughput, 470), "max_count_difference"},
		"server counts more":         {set(record.ServerThroughput, 530), "max_count_difference"},
		"server counts about it":     {set(record.ServerThroughput, 510), ""},
		"stolen":                     {set(record.Stolen, 0.9), "max_stolen"}, // of 4 CPUs
		"little stolen":              {set(record.Stolen, 0.7), ""},
		"far from the median":        {set(record.CPUService, 1e4), "max_spread"},
		"near the median":            {func(r *record.Run) { r.Values[record.CPUService] *= 1.2 }, ""},
	} {
		m, runs := generate(t, "thesis", "quick", analysistest.Model{Seed: 4, Noise: 0.01})
		m.Experiment.Rules = strict
		i := slices.IndexFunc(runs, func(r record.Run) bool {
			return r.Cell == "api-basic/500rps" && r.Variant == "head@0.1" && r.Round == 2
		})
		c.spoil(&runs[i])
		s := analyse(t, m, runs)
		want := map[string]string{}
		if c.rule != "" {
			want[runs[i].ID] = c.rule
		}
		if got := excluded(s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: excluded %v, want %v", name, got, want)
		}
		v := variantOf(t, s, "api-basic/500rps", "head@0.1")
		if v.Runs != 6 || v.Kept != 6-len(want) || v.Effect(record.P95).Estimate.N != v.Kept {
			t.Errorf("%s: %d of %d runs count, the effect has n=%d", name, v.Kept, v.Runs, v.Effect(record.P95).Estimate.N)
		}
	}
}

func TestARuleThatIsZeroExcludesNothing(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 4, Noise: 0.3})
	m.Experiment.Rules = experiment.Rules{}
	for i := range runs {
		runs[i].Values[record.ErrorShare] = 1
		runs[i].Values[record.Throughput] = 1
		runs[i].Answers = 0
	}
	if got := excluded(analyse(t, m, runs)); len(got) != 0 {
		t.Errorf("excluded %v", got)
	}
}

// A full sampling rate has no binomial width: one trace that the window's edge
// cut off must not exclude a run, and a hundredth of them must.
func TestSamplingErrorAtFullRate(t *testing.T) {
	for share, out := range map[float64]bool{1: false, 0.9995: false, 0.98: true} {
		m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 4, Noise: 0.01})
		i := slices.IndexFunc(runs, func(r record.Run) bool { return r.Variant == "head@1" })
		runs[i].Values[record.SampledShare] = share
		runs[i].Answers, runs[i].Requests = 1500, 2000
		if got := excluded(analyse(t, m, runs))[runs[i].ID]; (got != "") != out {
			t.Errorf("a share of %v: %q", share, got)
		}
	}
}

// Decisions that the sampler counted leave nothing to chance: the rate that it began
// with says nothing, and traces that did not arrive exclude a run unless spans were
// dropped.
func TestDecisionsThatWereCounted(t *testing.T) {
	for name, c := range map[string]struct {
		arrived, dropped float64
		out              bool
	}{
		"all":                  {0.3, 0, false},
		"one was cut off":      {0.3 - 1.0/4000, 0, false},
		"one in fifty missing": {0.294, 0, true}, // within a binomial deviation
		"as many dropped":      {0.294, 24, false},
		"too many":             {0.306, 24, true},
	} {
		m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 4, Noise: 0.01})
		i := slices.IndexFunc(runs, func(r record.Run) bool { return r.Variant == "adaptive@0.1" })
		runs[i].Requests, runs[i].Failures, runs[i].Answers = 4000, 40, 3000
		delete(runs[i].Values, record.SampledAsked)
		runs[i].Values[record.SampledDecided] = 0.3
		runs[i].Values[record.SampledShare], runs[i].Values[record.SpansDropped] = c.arrived, c.dropped
		assert.Equal(t, map[bool]string{true: "max_sampling_error"}[c.out], excluded(analyse(t, m, runs))[runs[i].ID], name)
	}
}

// What a workload fails on purpose excludes no run; what fails beyond it does.
func TestFailuresOnPurpose(t *testing.T) {
	for failed, rule := range map[float64]string{0.05: "", 0.054: "", 0.04: "", 0.06: "max_error_share", 0.5: "max_error_share"} {
		m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 4, Noise: 0.01})
		m.Experiment.Rules.ErrorShare = 0.005
		for i := range m.Experiment.Workloads {
			m.Experiment.Workloads[i].Fails = 0.05
		}
		i := slices.IndexFunc(runs, func(r record.Run) bool { return r.Variant == "head@1" })
		v := runs[i].Values
		v[record.ErrorShare], v[record.Throughput] = failed, (1-failed)*v[record.Offered]
		assert.Equal(t, rule, excluded(analyse(t, m, runs))[runs[i].ID], "%v failed", failed)
	}
}

// A closed loop offers what is answered; the rule is for open ones.
func TestAchievedIsForOpenLoops(t *testing.T) {
	m, runs := generate(t, "null", "quick", analysistest.Model{Seed: 4, Noise: 0.01})
	for i := range runs {
		runs[i].Values[record.Throughput] = 0.5 * runs[i].Values[record.Offered]
	}
	for id, rule := range excluded(analyse(t, m, runs)) {
		i := slices.IndexFunc(runs, func(r record.Run) bool { return r.ID == id })
		if runs[i].Load == "closed-32" {
			t.Errorf("%s is excluded by %s", id, rule)
		}
	}
}

func TestWhatARuleCannotLookAtIsCounted(t *testing.T) {
	m, runs := generate(t, "thesis", "smoke", analysistest.Model{Seed: 4, Noise: 0.01})
	for i := range runs {
		delete(runs[i].Values, record.GeneratorLagP99) // as another generator may not tell
	}
	s := analyse(t, m, runs)
	for _, r := range s.Rules {
		if r.Name == "max_generator_lag_p99" && r.Unjudged != len(runs) {
			t.Errorf("%d of %d runs are said to lack the lag", r.Unjudged, len(runs))
		}
	}
	assert.Equal(t, s.Runs.Measured, s.Runs.MeasuredKept, "a run was excluded for what is not known of it")
}
