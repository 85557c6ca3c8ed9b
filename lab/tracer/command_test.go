package tracer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/workloads"
)

// commandTarget is a target whose tracer is this shell script.
func commandTarget(script string, change func(*experiment.Process)) Target {
	p := &experiment.Process{
		Command: []string{"sh", "-c", script}, Env: map[string]string{"RATE": "{rate}", "TO": "{otlp}", "OTEL_LISTEN": "{listen}"},
		Ready: experiment.Ready{Output: "^ready"}, ReadBack: []string{"sh", "-c", `tr '\0' '\n' </proc/{pid}/environ`},
	}
	if change != nil {
		change(p)
	}
	t := &experiment.Tracer{Name: "mine", Driver: "command", Rates: []float64{0.1}, Process: p}
	return Target{
		Chain:    &workloads.Chain{Services: []workloads.Service{{Name: "a", Port: 81, PIDs: []int{7, 8}}, {Name: "b", Port: 82, PIDs: []int{9}}, {Name: "store", Port: 83, Dependency: true}}},
		Workload: &experiment.Workload{Name: "w"}, Variant: experiment.Variant{Name: "mine@0.1", Tracer: t, Rate: 0.1},
		Sink: experiment.Placeholders{OTLP: "http://sink:1", Listen: "here:2"},
	}
}

const runs = "echo ready; exec sleep 1000"

// running waits until the shell of runs is the program that it executes: until then it may have no environment.
func running(t *testing.T, s Session) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		dir := fmt.Sprintf("/proc/%d/", s.PIDs()[0])
		argv, err := os.ReadFile(dir + "cmdline")
		env, err2 := os.ReadFile(dir + "environ")
		require.NoError(t, errors.Join(err, err2))
		if strings.HasPrefix(string(argv), "sleep\x00") && len(env) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q runs, not sleep", argv)
		}
	}
}

func TestCommandIsStartedAndReadBack(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b") // is not inherited
	t.Setenv("INHERITED", "yes")
	t.Setenv("SECRET", "hunter2") // nobody asked for it: it is not recorded
	target := commandTarget(runs, func(p *experiment.Process) {
		p.Env["PORTS"], p.Env["PIDS"] = "{ports}", "{pids}"
		p.Expect = map[string]string{"RATE": "{rate}", "TO": "http://sink:1", "OTEL_LISTEN": "here:2", "PORTS": "81,82", "PIDS": "7,8,9", "INHERITED": "yes"}
	})
	s, err := command{}.Start(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	running(t, s)
	r, err := s.ReadBack(t.Context())
	require.NoError(t, err)
	if len(r.Config) != 6 || r.Asked["RATE"] != "0.1" || !strings.Contains(r.Asked["command"], "sleep 1000") {
		t.Errorf("asked %v, runs %v", r.Asked, r.Config)
	}
	if pids := s.PIDs(); len(pids) != 1 || s.Alive() != nil {
		t.Errorf("processes %v, %v", pids, s.Alive())
	}
	assert.NoError(t, s.Stop())
	assert.ErrorContains(t, s.Alive(), "tracer mine ended", "after its end")
}

func TestCommandIsReadyWhenItSaysSo(t *testing.T) {
	file := t.TempDir() + "/ready"
	for _, r := range []experiment.Ready{{Output: "re.dy"}, {Command: []string{"test", "-e", file}}} {
		s, err := command{}.Start(t.Context(), commandTarget("touch "+file+"; "+runs, func(p *experiment.Process) { p.Ready = r }))
		if err != nil {
			t.Errorf("%+v: %v", r, err)
			continue
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%+v: it was not ready: %v", r, err)
		}
		assert.NoError(t, s.Stop())
	}
}

func TestCommandThatFailsSaysItsLastOutput(t *testing.T) {
	for _, c := range []struct {
		name, script string
		change       func(*experiment.Process)
		want         []string
	}{
		{"ends", "echo no kernel here >&2; exit 3", nil, []string{"mine ended (exit status 3)", "no kernel here"}},
		{"never ready", "echo loading; exec sleep 1000", func(p *experiment.Process) { p.ReadyWithin = experiment.Duration(100 * time.Millisecond) },
			[]string{"tracer mine is not ready after 100ms", "loading", `it has not written "^ready"`}},
		{"never answers", "echo loading; exec sleep 1000", func(p *experiment.Process) {
			p.Ready, p.ReadyWithin = experiment.Ready{Command: []string{"sh", "-c", "echo not yet; exit 1"}}, experiment.Duration(200*time.Millisecond)
		}, []string{"tracer mine is not ready", "not yet", "loading"}},
		{"is not there", "", func(p *experiment.Process) { p.Command = []string{"no-such-tracer"} }, []string{"no-such-tracer"}},
	} {
		_, err := command{}.Start(t.Context(), commandTarget(c.script, c.change))
		for _, want := range c.want {
			assert.ErrorContains(t, err, want, c.name)
		}
	}
}

func TestReadBackOfACommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		said   string
		expect map[string]string
		want   string
	}{
		{"object", `{"sampler": {"rate": 1e-1}}`, map[string]string{"sampler.rate": "{rate}"}, ""},
		{"lines", "a line\nRATE=0.10\n", map[string]string{"RATE": "{rate}"}, ""},
		{"another rate", "RATE=1", map[string]string{"RATE": "{rate}"}, "says RATE=1, and should say 0.1"},
		{"says nothing of it", "X=1", map[string]string{"RATE": "{rate}"}, `does not tell "RATE"`},
		{"nothing", "hello", nil, "neither a JSON object nor a line KEY=VALUE"},
		{"half an object", `{"a": `, nil, "begins as a JSON object and is none"},
	} {
		s, err := command{}.Start(t.Context(), commandTarget(runs, func(p *experiment.Process) {
			p.ReadBack, p.Expect = []string{"printf", "%s", c.said}, c.expect
		}))
		require.NoError(t, err)
		_, err = s.ReadBack(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		assert.NoError(t, s.Stop())
	}
}

func TestCommandSaysWhatItNeeds(t *testing.T) {
	none := experiment.Tracer{Name: "none", Driver: "none"}
	p := commandTarget(runs, nil).Variant.Tracer.Process
	both, bad, mute := *p, *p, *p
	both.Ready.URL, bad.Ready.Output, mute.ReadBack = "http://x", "(", nil
	for want, tr := range map[string]experiment.Tracer{
		"":                                {Process: p},
		"say how it is started":           {},
		"nothing to start":                {Process: &experiment.Process{}},
		"by one of url, output":           {Process: &both},
		"error parsing regexp":            {Process: &bad},
		"read_back: give a command":       {Process: &mute},
		"has no agent that they could be": {Process: p, Flags: []string{"-x"}},
	} {
		tr.Name, tr.Driver = "mine", "command"
		if err := Check([]experiment.Tracer{none, tr}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	assert.ErrorContains(t, Check([]experiment.Tracer{{Name: "none", Driver: "none", Process: p}}), "only the driver command starts one", "a process of the driver none")
}

func FuzzReadBack(f *testing.F) {
	f.Add([]byte(`{"a": 1}`))
	f.Add([]byte("A=b\nc"))
	f.Fuzz(func(t *testing.T, said []byte) {
		if config, _, err := parseReadBack(said); (err == nil) != (config != nil) {
			t.Errorf("%v, %v", config, err)
		}
	})
}
