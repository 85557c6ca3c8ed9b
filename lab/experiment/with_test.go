package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const wider = `
name: wide
workloads: [{name: api, kind: thesis}, {name: other, kind: thesis}]
tracers:
  - {name: none, driver: none}
  - {name: tare, driver: tare, rates: [0.1, 0.5, 1], workloads: [api]}
loads: [{name: some, connections: 2}]
profiles: {quick: {rounds: 6, window: 1s, rounds_of: {tare: 9}, cells: [{tracers: [tare], rates: {tare: [0.1, 0.5]}}]}}
metrics: [cpu_service_us]
figures: [{id: a, x: variant, y: [p50_ms], as: value, where: {tracers: [tare]}}]
questions: [{id: q, claims: [{metric: p50_ms, where: {tracers: [tare], rates: {tare: [0.5, 1]}}}, {metric: p99_ms}]}]
`

func with(t *testing.T, text string) (*Experiment, error) {
	t.Helper()
	e, err := Parse([]byte(wider))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "more.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return e, e.With(file)
}

// What names the tracer that another is like names that one, too, at the rates that both have.
func TestTracersAreAdded(t *testing.T) {
	e, err := with(t, `tracers: [{name: obi, driver: env, like: tare, rates: [0.1, 1]}, {name: alone, driver: env}]`)
	require.NoError(t, err)
	cells, err := e.Cells("quick")
	require.NoError(t, err)
	if got := strings.Join(variantNames(cells[0]), " "); len(cells) != 1 || got != "none none again tare@0.1 tare@0.5 obi@0.1" {
		t.Errorf("%d cells, the first with %s", len(cells), got)
	}
	assert.Equal(t, 9, e.Profiles["quick"].RoundsOf["obi"], "rounds")
	obi := &e.Tracers[2]
	for what, where := range map[string]Subset{"figure": e.Figures[0].Where, "claim": e.Questions[0].Claims[0].Where} {
		assert.True(t, where.Selects("api", "some", obi, 1), "the %s does not name it: %+v", what, where)
	}
	if where := e.Questions[0].Claims[0].Where; where.Selects("api", "some", obi, 0.1) || where.Selects("api", "some", &e.Tracers[3], 0) {
		t.Errorf("the claim names more than it did: %+v", where)
	}
}

func TestTracersThatCannotBeAddedSayWhy(t *testing.T) {
	for text, want := range map[string]string{
		"tracers: [{name: obi, driver: env, like: nothing}]": `wide has no tracer "nothing": there are [none tare]`,
		"tracers: [{name: tare, driver: env}]":               "there twice",
		"tracers: [{name: obi, driver: env, rate: [1]}]":     "field rate not found",
		"workloads: []": "field workloads not found",
		"tracers: []":   "there is none to add",
		"tracers: [{name: obi, driver: env, workloads: [mine]}]":          `"mine" is unknown`,
		"tracers: [{name: obi, driver: command, process: {comand: [x]}}]": "field comand not found",
	} {
		if _, err := with(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The examples can be added to the experiments that they name.
func TestExamplesCanBeAdded(t *testing.T) {
	for file, names := range map[string][]string{
		"obi.yaml":           {"chainscope-nginx", "chainscope-hotel", "coroot", "../../docs/examples/hello.yaml"},
		"sdk-collector.yaml": {"../../docs/examples/hello.yaml"},
	} {
		for _, name := range names {
			e, err := Open(name)
			require.NoError(t, err)
			n := len(e.Tracers)
			if err := e.With(filepath.Join("../../docs/examples", file)); err != nil || len(e.Tracers) != n+1 {
				t.Errorf("%s with %s: %v", name, file, err)
			}
		}
	}
}
