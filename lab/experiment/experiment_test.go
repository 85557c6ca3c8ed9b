package experiment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShippedExperimentsAreValid(t *testing.T) {
	all, err := Shipped()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, e := range all {
		found[e.Name] = true
		for _, profile := range []string{"smoke", "quick", "full"} {
			cells, err := e.Cells(profile)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, c := range cells {
				if len(c.Variants) < 3 || c.Variants[0].Name != e.Baseline() || !c.Variants[1].Control {
					t.Errorf("%s, %s, cell %s: variants %v", e.Name, profile, c.Name, variantNames(c))
				}
			}
		}
	}
	for _, want := range []string{"adaptive", "thesis", "coroot", "chainscope-nginx", "chainscope-hotel", "chainscope-rootcause", "null", "placement", "runtimes", "storage", "strategies"} {
		assert.True(t, found[want], "no experiment %s", want)
	}
}

func variantNames(c Cell) []string {
	var out []string
	for _, v := range c.Variants {
		out = append(out, v.Name)
	}
	return out
}

const small = `
name: mine
workloads: [{name: api, kind: command, command: [./api], env: {A: "{otlp}"}}]
tracers:
  - {name: none, driver: none}
  - {name: sdk, driver: env, rates: [0.1, 1], env: {RATE: "{rate}", TO: "{otlp}"}, at: {"1": {RATE: all}}, expect: {rate: "{rate}"}}
loads: [{name: slow, rate: 10, connections: 2}]
profiles: {quick: {rounds: 6, window: 1s}}
metrics: [cpu_service_us]
`

func TestEnvironmentOfAVariant(t *testing.T) {
	e, err := Parse([]byte(small))
	require.NoError(t, err)
	cells, err := e.Cells("quick")
	require.NoError(t, err)
	require.Equal(t, "none none again sdk@0.1 sdk@1", strings.Join(variantNames(cells[0]), " "), "variants")
	p := Placeholders{OTLP: "http://sink", Round: 3}
	assert.Equal(t, "3 http://sink {port}", p.Expand("{round} {otlp} {port}"))
	e.Profiles["quick"] = Profile{EnvOf: map[string]map[string]string{"sdk": {"RATE": "mine", "MORE": "{otlp}"}}}
	others, err := e.Cells("quick")
	require.NoError(t, err)
	if got := others[0].Variants[3].Environment(p); got["RATE"] != "mine" || got["MORE"] != "http://sink" || got["TO"] != "http://sink" {
		t.Errorf("the profile's environment: %v", got)
	}
	if got := others[0].Variants[0].Environment(p); len(got) != 0 {
		t.Errorf("the baseline's environment: %v", got)
	}
	tenth, all := cells[0].Variants[2].Environment(p), cells[0].Variants[3].Environment(p)
	if tenth["RATE"] != "0.1" || tenth["TO"] != "http://sink" || all["RATE"] != "all" {
		t.Errorf("environments %v and %v", tenth, all)
	}
	assert.Equal(t, "0.1", cells[0].Variants[2].Expected(p)["rate"], "expected rate")
}

func TestWrongExperimentsSayWhere(t *testing.T) {
	for change, want := range map[string]string{
		"":                                 "",
		"name: mine|name: my own":          `the name "my own"`,
		"rates: [0.1, 1]|rates: [0.1, 10]": "the rate 10 is not between 0 and 1",
		`{"1": {RATE|{"0.3": {RATE`:        `tracer sdk: at: "0.3" is unknown`,
		"driver: env, rates|driver: env, roots: -1, rates":    "roots: -1 is negative",
		"driver: env, rates|driver: env, settling: -1, rates": "settling: -1 is negative",
		"window: 1s|window: 1":                                "is no duration",
		"window: 1s|window: 100ms":                            "need at least 500ms",
		"rounds: 6|rounds: 0":                                 "need at least 1",
		"rounds: 6|rounds: 6, env_of: {lean: {A: b}}":         `env_of: "lean" is unknown`,
		"rounds: 6|rounds: 6, rounds_of: {sdk: 0}":            "rounds_of: sdk: need at least 1 round",
		"rounds: 6|rounds: 0, check: 9, rounds_of: {sdk: 2}":  "rounds_of: sdk: need at least 1 round",
		"rounds: 6|rounds: 6, rounds_of: {lean: 7}":           `rounds_of: "lean" is unknown`,
		"rounds: 6|rounds: 6, rounds_of: {none: 7}":           "none is the baseline, which is in every round",
		"metrics: |questions: [{id: a, claims: [{metric: p50_ms, as: added, against: none, share_of_added: true}]}]\nmetrics: ": "as: a difference is no share",
		"driver: env, rates|driver: env, collector_fault: slow, rates":                                                          `collector_fault: "slow" is unknown`,
		"driver: env, rates|driver: env, collector_fault: silent, collector: true, rates":                                       "leave out collector",
		"command: [./api]|size: -1":                                                        "size: -1 bytes is not between 0 and 67108864",
		"command: [./api]|size: 67108865":                                                  "size: 67108865 bytes is not between",
		"command: [./api]|post: true":                                                      "size: post, and {size} in the path, need",
		`command: [./api]|path: "/x?n={size}"`:                                             "size: post, and {size} in the path, need",
		"metrics: |figures: [{id: a, x: size, y: [p50_ms], as: value}]\nmetrics: ":         "the workload api has no size",
		"rounds: 6|round: 6":                                                               "field round not found",
		"connections: 2|connections: 0":                                                    "need at least 1",
		"metrics: [cpu_service_us]|metrics: []":                                            "name at least one",
		"command: [./api]|path: api":                                                       "must begin with a slash",
		"[{name: slow|[{name: slow, connections: 1}, {name: slow":                          "there twice",
		"command: [./api]|metrics: api":                                                    "must begin with a slash",
		"command: [./api]|slow: 1s":                                                        "slow: needs metrics",
		"profiles:|rules: {max_count_difference: -1}\nprofiles:":                           "max_count_difference: -1 is negative",
		"driver: env, rates|driver: env, sampler: x, rates":                                `sampler: "x" must begin with a slash`,
		"driver: env, rates|driver: env, processors: [{a: {}, b: {}}], rates":              "want one name with its settings",
		"driver: env, rates|driver: env, follow: 1s, rates":                                "follow: needs sampler",
		"driver: env, rates|driver: env, sampler: /x, follow: 10ms, rates":                 "at least 50ms",
		"kind: command|fails: 1, kind: command":                                            "fails: 1 is not a share",
		"metrics: [cpu|figures: [{id: a, x: time, y: [p50_ms], as: value}]\nmetrics: [cpu": "x: time goes with y: [rates]",
		"metrics: [cpu|figures: [{id: a, x: rate, y: [rates], as: value}]\nmetrics: [cpu":  "x: time goes with y: [rates]",
	} {
		old, replacement, _ := strings.Cut(change, "|")
		_, err := Parse([]byte(strings.Replace(small, old, replacement, 1)))
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q in it", change, err, want)
		}
	}
	if _, err := Open("nothing"); err == nil || !strings.Contains(err.Error(), "there are adaptive, chainscope-hotel, chainscope-nginx, chainscope-rootcause, collector, coroot, kyma, null, payload, pipelines, placement, privacy, runtimes, shims, storage, strategies, thesis") {
		t.Errorf("an unknown experiment: %v", err)
	}
}

// An axis of sizes has one workload at each.
func TestSizesOfAFigureDiffer(t *testing.T) {
	two := strings.Replace(small, "command: [./api], env", "size: 9}, {name: b, kind: counter, size: 9, env", 1)
	for where, want := range map[string]string{"": "the workloads api and b have the same size", "where: {workloads: [b]}, ": ""} {
		_, err := Parse([]byte(two + "figures: [{id: a, " + where + "x: size, y: [p50_ms], as: value}]\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q in it", where, err, want)
		}
	}
}

// A round has the baseline if it has any other variant of the cell.
func TestRoundsOfATracer(t *testing.T) {
	for rounds, want := range map[string]string{
		"rounds: 1, rounds_of: {sdk: 2}": "none none again sdk@0.1 sdk@1|none none again sdk@0.1 sdk@1",
		"rounds: 2, rounds_of: {sdk: 1}": "none none again sdk@0.1 sdk@1|none none again",
		"rounds: 2":                      "none none again sdk@0.1 sdk@1|none none again sdk@0.1 sdk@1",
	} {
		e, err := Parse([]byte(strings.Replace(small, "rounds: 6", rounds, 1)))
		require.NoError(t, err)
		cells, err := e.Cells("quick")
		require.NoError(t, err)
		p, got := e.Profiles["quick"], []string{}
		for round := range p.MostRounds() {
			var names []string
			for _, v := range cells[0].Variants {
				if p.Holds(&cells[0], v, round) {
					names = append(names, v.Name)
				}
			}
			got = append(got, strings.Join(names, " "))
		}
		assert.Equal(t, want, strings.Join(got, "|"), rounds)
	}
}

func TestSizeInAPath(t *testing.T) {
	w := Workload{Path: "/x?n={size}", Size: 1000}
	assert.Equal(t, "/x?n=1000", w.RequestPath())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	files, err := shipped.ReadDir("shipped")
	require.NoError(f, err)
	for _, file := range files {
		b, err := shipped.ReadFile("shipped/" + file.Name())
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err != nil {
			return
		}
		for name := range e.Profiles {
			if cells, err := e.Cells(name); err == nil && len(cells) == 0 {
				t.Error("no cells and no error")
			}
		}
	})
}
