package tracer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckSaysWhatIsWrong(t *testing.T) {
	none := experiment.Tracer{Name: "none", Driver: "none"}
	for _, c := range []struct {
		second experiment.Tracer
		want   string
	}{
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}}, ""},
		{experiment.Tracer{Name: "x", Driver: "env"}, "say which environment"},
		{experiment.Tracer{Name: "x", Driver: "collector"}, "say which environment"},
		{experiment.Tracer{Name: "x", Driver: "tare"}, ""},
		{experiment.Tracer{Name: "x", Driver: "tare", Rates: []float64{1}, Collector: true, Roots: 2, Flags: []string{"--tag", "none"}}, ""},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Collector: true, Keep: map[string]any{}}, ""},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Keep: map[string]any{}}, "add collector: true"},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Store: true}, "it is the collector that stores: add collector: true"},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Processors: []map[string]any{{"batch": nil}}}, "processors: they are the collector's"},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Roots: 2}, "the driver env has no agent"},
		{experiment.Tracer{Name: "x", Driver: "none", Collector: true}, "no span comes to it, of the driver none"},
		{experiment.Tracer{Name: "x", Driver: "collector", Env: map[string]string{"A": "1"}, Collector: true}, "no span comes to it, of the driver collector"},
		{experiment.Tracer{Name: "x", Driver: "tare", StopAt: "spans", Collector: true}, "no span comes to it"},
		{experiment.Tracer{Name: "x", Driver: "env", Env: map[string]string{"A": "1"}, Sampler: "/adaptive-metrics"}, ""},
		{experiment.Tracer{Name: "x", Driver: "tare", Sampler: "/adaptive-metrics"}, "only the driver env has a sampler"},
		{experiment.Tracer{Name: "x", Driver: "none", Sampler: "/adaptive-metrics"}, "only the driver env has a sampler"},
		{experiment.Tracer{Name: "x", Driver: "none", Flags: []string{"--events"}}, "the driver none has no agent"},
		{experiment.Tracer{Name: "x", Driver: "sdk"}, `tracer x: driver: "sdk" is unknown: there are collector, command, env, none, tare`},
	} {
		err := Check([]experiment.Tracer{none, c.second})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.second, err, c.want)
		}
	}
	first := []experiment.Tracer{{Name: "x", Driver: "tare", Rates: []float64{1}}}
	assert.ErrorContains(t, Check(first), "the first must have the driver collector or none", "no baseline")
}

// answers makes a target whose service says this of itself.
func answers(t *testing.T, config string, expect map[string]string, rates ...float64) Target {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(config))
	}))
	t.Cleanup(server.Close)
	tr := &experiment.Tracer{Name: "sdk", Driver: "env", Rates: rates, Env: map[string]string{"RATE": "{rate}"}, Expect: expect}
	return Target{
		Chain:    &workloads.Chain{Entry: server.Listener.Addr().String()},
		Workload: &experiment.Workload{Name: "w", Kind: "command", ReadBack: "/config"},
		Variant:  experiment.Variant{Name: "sdk@0.1", Tracer: tr, Rate: 0.1},
	}
}

func TestServiceIsBelievedNotTheCommandLine(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"as asked", `{"tracing_enabled": true, "sampling_rate": 0.1, "spans_dropped": 2, "spans_failed": 3}`, ""},
		{"another rate", `{"tracing_enabled": true, "sampling_rate": 1}`, "says sampling_rate=1, and should say 0.1"},
		{"says nothing", `{}`, "does not tell"},
		{"no JSON", `hello`, "not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := answers(t, c.config, map[string]string{"sampling_rate": "{rate}"}, 0.1)
			s, err := env{}.Start(t.Context(), target)
			require.NoError(t, err)
			r, err := s.ReadBack(t.Context())
			if c.want != "" {
				assert.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			if r.Rate != 0.1 || !r.HasRate || r.Dropped != 5 || !r.Counts || r.Asked["RATE"] != "0.1" {
				t.Errorf("reading %+v", r)
			}
		})
	}
}

// Beside the agent, the service that it traces says what it runs with, too.
func TestTheTracedServiceIsAskedToo(t *testing.T) {
	agentSays := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE tare_roots_total counter\ntare_roots_total{sampled=\"true\"} 10\n# TYPE tare_sampling_ratio gauge\ntare_sampling_ratio 1\n"))
	}))
	t.Cleanup(agentSays.Close)
	group, err := workloads.NewGroup("tracer-test")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Stop()) })
	idle, err := group.Start("agent", []string{"sleep", "infinity"}, nil)
	require.NoError(t, err)
	for config, want := range map[string]string{
		`{"baseline": "bare", "tracing_enabled": false}`: "",
		`{"baseline": "noop", "tracing_enabled": false}`: "says baseline=noop, and should say bare",
	} {
		a := &agent{
			group: group, process: idle, all: true, base: agentSays.URL, client: agentSays.Client(),
			service: newService(answers(t, config, map[string]string{"baseline": "bare"})),
		}
		r, err := a.ReadBack(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q in it", config, err, want)
		}
		if said, _ := lookUp(r.Config, "service"); said == nil || r.Config["sampling_ratio"] != 1.0 {
			t.Errorf("%s: read back %v", config, r.Config)
		}
	}
}

func TestLookUpFollowsDots(t *testing.T) {
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"a": {"b": {"c": 1}}, "x.y": 2}`), &config))
	for key, want := range map[string]any{"a.b.c": 1.0, "x.y": 2.0} {
		if got, ok := lookUp(config, key); !ok || got != want {
			t.Errorf("%s: %v, %v", key, got, ok)
		}
	}
	if _, ok := lookUp(config, "a.c"); ok {
		t.Error("a.c was found")
	}
}

func TestParseMetrics(t *testing.T) {
	text := `# TYPE tare_roots_total counter
tare_roots_total{sampled="true"} 10
tare_roots_total{sampled="false"} 990
# TYPE tare_sampling_ratio gauge
tare_sampling_ratio 0.01
# TYPE tare_lost_total counter
tare_lost_total{reason="ring_full"} 3
tare_lost_total{reason="queue_full"} 4
# TYPE tare_service_request_duration_seconds histogram
tare_service_request_duration_seconds_bucket{service="shop",status_class="2xx",le="+Inf"} 6
tare_service_request_duration_seconds_sum{service="shop",status_class="2xx"} 1
tare_service_request_duration_seconds_count{service="shop",status_class="2xx"} 6
tare_service_request_duration_seconds_bucket{service="shop",status_class="5xx",le="+Inf"} 2
tare_service_request_duration_seconds_sum{service="shop",status_class="5xx"} 1
tare_service_request_duration_seconds_count{service="shop",status_class="5xx"} 2
# TYPE tare_bpf_program_runs_total counter
tare_bpf_program_runs_total{program="send",hook="tp_btf/tcp_sendmsg_locked"} 100
tare_bpf_program_runs_total{program="idle",hook="x"} 0
# TYPE tare_bpf_program_run_seconds_total counter
tare_bpf_program_run_seconds_total{program="send",hook="tp_btf/tcp_sendmsg_locked"} 5e-05
`
	r, err := parseMetrics(strings.NewReader(text))
	require.NoError(t, err)
	if r.Sampled != 10 || r.Unsampled != 990 || r.Rate != 0.01 || r.Dropped != 7 || r.Lost["ring_full"] != 3 {
		t.Errorf("%+v", r)
	}
	if len(r.Measured) != 1 || r.Measured["shop"] != 8 {
		t.Errorf("measured requests %v, want 8 of shop", r.Measured)
	}
	if len(r.Programs) != 2 || r.Programs[0].Name != "send" || r.Programs[0].NsPerRun < 499 || r.Programs[0].NsPerRun > 501 {
		t.Errorf("programs %+v", r.Programs)
	}
	if _, err := parseMetrics(strings.NewReader("# TYPE up gauge\nup 1\n")); err == nil || !strings.Contains(err.Error(), "tare agent") {
		t.Errorf("foreign metrics: %v", err)
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add("# TYPE tare_roots_total counter\ntare_roots_total{sampled=\"true\"} 10\n# TYPE tare_sampling_ratio gauge\ntare_sampling_ratio 0.01\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseMetrics(strings.NewReader(text)) })
}
