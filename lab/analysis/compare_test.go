package analysis_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/analysis"
	"github.com/tare-trace/tare/lab/analysis/analysistest"
	"github.com/tare-trace/tare/lab/record"
)

func results(t *testing.T, name string, seed uint64, overhead float64) analysis.Results {
	t.Helper()
	m, runs := generate(t, "coroot", "quick", analysistest.Model{Seed: seed, Rounds: 30, Noise: 0.02, Factor: func(_, _, tracer string, rate float64, metric string) float64 {
		if metric == record.CPUService && tracer == "otel" {
			return 1 + overhead*rate
		}
		return 1
	}})
	return analysis.Results{Name: name, Manifest: m, Summary: analyse(t, m, runs)}
}

func changeOf(c *analysis.Comparison, variant, metric string) *analysis.Change {
	for i := range c.Changes {
		if c.Changes[i].Variant == variant && c.Changes[i].Metric == metric {
			return &c.Changes[i]
		}
	}
	return nil
}

func TestCompareFindsWhatChanged(t *testing.T) {
	c, err := analysis.Compare(results(t, "before", 1, 0.4), results(t, "after", 2, 0.12))
	require.NoError(t, err)
	ch := changeOf(c, "otel@1", record.CPUService)
	if want := 1.12 / 1.4; ch == nil || ch.Change.Lo > want+0.01 || ch.Change.Hi < want-0.01 || !ch.Verdict.Distinguishable {
		t.Errorf("from +40%% to +12%%: %+v", ch)
	}
	same, found := 0, 0
	for _, ch := range c.Changes {
		if ch.Variant == "otel@1" && (ch.Metric == record.CPUService || ch.Metric == record.CoresService) {
			continue
		}
		same++
		if ch.Verdict.Distinguishable {
			found++
		}
	}
	if same < 20 || found > same/20+1 {
		t.Errorf("%d of %d effects that did not change are said to have", found, same)
	}
	assert.Equal(t, 0, len(c.Warnings), "warnings: %q", c.Warnings)
}

func TestCompareWritesTables(t *testing.T) {
	a, b := results(t, "before", 1, 0.4), results(t, "after", 2, 0.12)
	b.Manifest.Machine.Kernel = "6.12.0"
	b.Manifest.Versions = map[string]string{"go": "go1.27"}
	b.Summary.Cells[0].Variants = b.Summary.Cells[0].Variants[:6] // without tare
	c, err := analysis.Compare(a, b)
	require.NoError(t, err)
	var text, markdown bytes.Buffer
	require.NoError(t, c.WriteText(&text))
	require.NoError(t, c.WriteMarkdown(&markdown))
	golden(t, "compare.txt", text.Bytes())
	golden(t, "compare.md", markdown.Bytes())
	for _, want := range []string{"6.12.0", "the version of go differs", "the version of nginx differs: 1.22.1 in before, none in after", "Only in A: counter/10000rps tare@0"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(markdown.String(), want) {
			t.Errorf("%q is not said", want)
		}
	}
}

func TestCompareRefusesWhatHasNothingInCommon(t *testing.T) {
	a := results(t, "a", 1, 0.1)
	m, runs := generate(t, "null", "quick", analysistest.Model{Seed: 1})
	b := analysis.Results{Name: "b", Manifest: m, Summary: analyse(t, m, runs)}
	if c, err := analysis.Compare(a, b); err == nil || !strings.Contains(err.Error(), "coroot") || !strings.Contains(err.Error(), "null") {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := analysis.Compare(a, analysis.Results{Name: "empty"}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("%v", err)
	}
}

func TestCompareWarnsOfOtherDefinitions(t *testing.T) {
	a, b := results(t, "a", 1, 0.1), results(t, "b", 2, 0.1)
	b.Manifest.Experiment.Loads[0].Connections++
	b.Manifest.Experiment.Tracers[1].Env["OTEL_BSP_MAX_QUEUE_SIZE"] = "1"
	b.Manifest.Experiment.Workloads[0].Path = "/other"
	p := b.Manifest.Experiment.Profiles["quick"]
	p.Window *= 2
	b.Manifest.Experiment.Profiles["quick"] = p
	b.Summary.Baseline = "noop"
	c, err := analysis.Compare(a, b)
	require.NoError(t, err)
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"the baseline differs: none in a, noop in b", "the load 10000rps", "the tracer otel", "the workload counter", "the windows differ"} {
		assert.Contains(t, all, want, "warnings")
	}
}
