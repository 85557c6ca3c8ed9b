package bench

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/workloads/polyglot"
)

func TestShippedExperimentsCanRun(t *testing.T) {
	all, err := experiment.Shipped()
	require.NoError(t, err)
	for _, e := range all {
		assert.NoError(t, runnable(e), "%s", e.Name)
	}
}

// Every framework is in the experiment, with one version of its runtime and one client at least.
func TestRuntimesHasEveryFramework(t *testing.T) {
	e, err := experiment.Open("runtimes")
	require.NoError(t, err)
	measured, versions := map[string]bool{}, regexp.MustCompile(`[0-9.]+|-client`)
	for _, w := range e.Workloads {
		if w.Kind != "polyglot-"+w.Name || !w.Optional {
			t.Errorf("%s: %s, optional: %v", w.Name, w.Kind, w.Optional)
		}
		measured[versions.ReplaceAllString(w.Name, "")] = true
	}
	for _, s := range polyglot.All() {
		assert.True(t, measured[versions.ReplaceAllString(s.Name, "")], "no workload %s", s.Name)
	}
}

func TestWhatCannotRunIsSaid(t *testing.T) {
	const small = `
name: mine
workloads: [{name: api, kind: command, command: [./api], port: 80}]
tracers: [{name: none, driver: none}]
loads: [{name: slow, rate: 10, connections: 2}]
profiles: {quick: {rounds: 6, window: 1s}}
metrics: [cpu_service_us]
`
	for change, want := range map[string]string{
		"":                              "",
		"kind: command|kind: java":      `workload api: no chain "java": there are account, collector, command`,
		"kind: command|kind: nginx":     "for a command only",
		", command: [./api], port: 80|": "say how the service is started",
		"driver: none|driver: sdk":      `"sdk" is unknown`,
		"rate: 10,|rate: 10, tool: ab,": "closed loop",
		"rate: 10,|tool: wrk,":          `load slow: no load generator "wrk": there are ab;`,
		"kind: command, command: [./api], port: 80|kind: shop, env: {A: b}": "take no environment",
		"kind: command, command: [./api], port: 80|kind: counter, path: /b": "its own",
		"port: 80|port: 80, diagnose: true":                                 "nothing in a chain of kind command can be late",
	} {
		old, replacement, _ := strings.Cut(change, "|")
		_, err := experiment.Parse([]byte(strings.Replace(small, old, replacement, 1)), runnable)
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q in it", change, err, want)
		}
	}
}

// ab asks for the same path with every request: nothing tells its traces apart.
func TestWhatCannotNumberRequestsIsNotChecked(t *testing.T) {
	runs, _, _ := planOf(t, "chainscope-nginx", "full")
	loads := map[string]int{}
	for _, r := range runs {
		if r.check > 0 && r.kind == "checked" {
			loads[r.cell.Load.Name]++
		}
	}
	if loads["closed-32"] == 0 || loads["ab-32"] != 0 {
		t.Errorf("checked runs by load: %v", loads)
	}
}
