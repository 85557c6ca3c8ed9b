package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/bench"
	"github.com/tare-trace/tare/lab/record"
)

// bench runs `tare bench` in a directory and returns all that it wrote.
func runBench(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(5*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, tare, append([]string{"bench"}, args...)...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// experimentOf runs an experiment to its end and returns its records.
func experimentOf(t *testing.T, dir, name, profile string) (*record.Manifest, []record.Run) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	text, err := runBench(t, dir, "run", name, "--profile", profile, "--out", out, "--no-install")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, runs, err := bench.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Failed != "" {
			t.Errorf("%s failed: %s", r.ID, r.Failed)
		}
	}
	for _, file := range []string{"summary.json", "report.md", "report.html"} {
		b, err := os.ReadFile(filepath.Join(out, file))
		if err != nil || len(b) < 500 {
			t.Errorf("%s: %d bytes, %v", file, len(b), err)
		}
	}
	var summary map[string]any
	b, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err := errors.Join(err, json.Unmarshal(b, &summary)); err != nil {
		t.Error(err)
	}
	return m, runs
}

// valueOf finds a value of a run; a metric that should have been measured and
// was not is an error.
func valueOf(t *testing.T, r record.Run, metric string) float64 {
	t.Helper()
	v, ok := r.Values[metric]
	if !ok {
		t.Errorf("%s: %s was not measured", r.ID, metric)
	}
	return v
}

func TestBenchThesis(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip")
	_, runs := experimentOf(t, t.TempDir(), "thesis", "smoke")
	variants := map[string]int{}
	for _, r := range runs {
		variants[r.Variant]++
		if r.Kind != record.Measured {
			continue
		}
		if valueOf(t, r, record.CPUService) <= 0 || valueOf(t, r, record.NetOut) <= 0 || valueOf(t, r, record.P99) <= 0 {
			t.Errorf("%s: %v", r.ID, r.Values)
		}
		if valueOf(t, r, record.ServerThroughput) <= 0 || valueOf(t, r, record.ServerP99) <= 0 || valueOf(t, r, record.CPUSink) <= 0 || valueOf(t, r, record.CPUGenerator) <= 0 {
			t.Errorf("%s: %v", r.ID, r.Values)
		}
		switch r.Variant {
		case "noop", "noop again":
			if r.ReadBack["tracing_enabled"] != false || r.ReadBack["instrumentation"] != "otelhttp" {
				t.Errorf("%s: read back %v", r.ID, r.ReadBack)
			}
		case "bare":
			if r.ReadBack["tracing_enabled"] != false || r.ReadBack["instrumentation"] != "none" {
				t.Errorf("%s: read back %v", r.ID, r.ReadBack)
			}
		case "head@1":
			if r.ReadBack["sampling_strategy"] != "always_on" || valueOf(t, r, record.SampledShare) < 0.999 {
				t.Errorf("%s: read back %v, %v sampled", r.ID, r.ReadBack, r.Values[record.SampledShare])
			}
			if valueOf(t, r, record.Complete) != 1 || valueOf(t, r, record.SpansDropped) != 0 || valueOf(t, r, record.NetExport) <= 0 {
				t.Errorf("%s: %v", r.ID, r.Values)
			}
		}
	}
	if n := variants["noop"]; n == 0 || variants["noop again"] != n || variants["head@1"] != n || variants["bare"] != n {
		t.Errorf("runs by variant: %v", variants)
	}
}

// Answers and bodies have the size of their workload, with the agent and without.
func TestBenchPayload(t *testing.T) {
	t.Parallel()
	need(t, "ip")
	const size = 300_000
	file := filepath.Join(t.TempDir(), "sizes.yaml")
	if err := os.WriteFile(file, []byte(`
name: sizes
workloads:
  - {name: answer, kind: thesis, path: "/api/large-payload?size={size}", size: 300000, spans: 1, read_back: /config}
  - {name: body, kind: thesis, path: /api/large-payload, post: true, size: 300000, spans: 1, read_back: /config}
tracers:
  - {name: noop, driver: none, env: {BASELINE: noop}, expect: {instrumentation: otelhttp}}
  - {name: tare, driver: tare, expect: {instrumentation: none}}
loads: [{name: closed, connections: 2}]
profiles: {once: {rounds: 1, window: 1s}}
metrics: [cpu_traced_us]
figures: [{id: S, x: size, where: {workloads: [body]}, y: [cpu_traced_us], as: value, series: tracer}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, runs := experimentOf(t, t.TempDir(), file, "once")
	for _, r := range runs {
		out := valueOf(t, r, record.NetOut) // the window's ends may cut answers off
		if r.Workload == "answer" && out < size/2 || r.Workload == "body" && out > size/10 || r.Failures > 0 {
			t.Errorf("%s: %.0f bytes left for each request, %d of %d failed", r.ID, out, r.Failures, r.Requests)
		}
		if r.Tracer == "tare" && (valueOf(t, r, record.Complete) != 1 || r.ReadBack["service"] == nil) {
			t.Errorf("%s: %v, read back %v", r.ID, r.Values, r.ReadBack)
		}
	}
}

// What fails and what is slow has a trace where it is decided when the request is over, in
// the service or behind it.
func TestBenchStrategies(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip")
	_, runs := experimentOf(t, t.TempDir(), "strategies", "smoke")
	tracers := map[string]bool{}
	for _, r := range runs {
		tracers[r.Tracer] = true
		if r.Kind != record.Measured || r.Tracer == "noop" || r.Tracer == "bare" {
			continue
		}
		failed, slow := valueOf(t, r, record.FailedTraced), valueOf(t, r, record.SlowTraced)
		switch sampled := valueOf(t, r, record.SampledShare); r.Tracer {
		case "tail", "keep", "lean-keep":
			if failed != 1 || slow < 1 || sampled > 0.3 {
				t.Errorf("%s: %v of the failed and %v of the slow requests have a trace, %v of all", r.ID, failed, slow, sampled)
			}
		case "limit", "context":
			if failed > 0.6 || sampled > 0.3 {
				t.Errorf("%s: %v of the failed requests have a trace, %v of all", r.ID, failed, sampled)
			}
		}
		if behind := valueOf(t, r, record.CPUTracer) > 0; behind != (r.Tracer == "tail") {
			t.Errorf("%s: a process behind the service: %v", r.ID, behind)
		}
		if valueOf(t, r, record.Complete) != 1 || valueOf(t, r, record.SpansDropped) != 0 {
			t.Errorf("%s: %v", r.ID, r.Values)
		}
	}
	if len(tracers) != 10 || !tracers["tail"] {
		t.Errorf("tracers: %v", tracers)
	}
}

// What is planted into requests is found where it is stored, less of it with redaction, and
// nothing where the agent traces.
func TestBenchPrivacy(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip")
	_, runs := experimentOf(t, t.TempDir(), "privacy", "smoke")
	stored := map[string]float64{}
	for _, r := range runs {
		if r.Kind != record.Measured || r.Tracer == "noop" {
			continue
		}
		stored[r.Tracer] = valueOf(t, r, record.SecretsStored)
		if valueOf(t, r, record.SpansDropped) != 0 || valueOf(t, r, record.Complete) != 1 {
			t.Errorf("%s: %v", r.ID, r.Values)
		}
		sampled, bytes := valueOf(t, r, record.SampledShare), valueOf(t, r, record.PersonalData)
		if (bytes > 0) != (stored[r.Tracer] > 0) || r.Tracer == "head" && (bytes < 100*sampled || bytes > 500*sampled) {
			t.Errorf("%s: %v bytes of personal data, %v sampled", r.ID, bytes, sampled)
		}
		if r.Tracer == "tare" {
			continue
		}
		changed := valueOf(t, r, record.DecoysChanged)
		if redacts := strings.Contains(r.Tracer, "redact") || r.Tracer == "contrib"; redacts != (changed > 0) {
			t.Errorf("%s: %v of the decoys are changed", r.ID, changed)
		}
	}
	for tracer, want := range map[string][2]float64{
		"head": {1, 1}, "adaptive": {1, 1}, "keep": {1, 1}, "tail": {1, 1}, "lean": {1, 1}, "collector": {1, 1}, "tare": {0, 0},
		"head-redact": {0.3, 0.4}, "adaptive-redact": {0.3, 0.4}, "lean-redact": {0.3, 0.4}, "tare-redact": {0.3, 0.4},
		"tare-redact-more": {0.01, 0.1}, "contrib": {0.3, 0.9},
	} {
		if got, ok := stored[tracer]; !ok || got < want[0] || got > want[1] {
			t.Errorf("%s: %v of the secrets are stored (run: %v), want %v", tracer, got, ok, want)
		}
	}
}

// An adaptive sampler raises its rate where requests fail, and as many traces arrive
// as it decided to sample, whole in a chain of three services.
func TestBenchAdaptive(t *testing.T) {
	t.Parallel()
	need(t, "ip")
	const text = `
name: small
workloads:
  - {name: one, kind: thesis, path: /api/basic, spans: 1, read_back: /config, fails: 0.2, env: &env {INJECT_ERRORS: "0.2", OTEL_BSP_SCHEDULE_DELAY: "100"}}
  - {name: three, kind: thesis-3, read_back: /config, fails: 0.2, env: *env}
tracers:
  - {name: noop, driver: none, env: {TRACING_ENABLED: "false", BASELINE: noop}, expect: {tracing_enabled: "false", baseline: noop}}
  - name: adaptive
    driver: env
    rates: [0.3]
    sampler: /adaptive-metrics
    follow: 100ms
    env: {TRACING_ENABLED: "true", SAMPLING_STRATEGY: adaptive, ADAPTIVE_BASE_RATE: "{rate}", ADAPTIVE_UPDATE_INTERVAL: "0.1", COLLECTOR_ENDPOINT: "{otlp}"}
    expect: {sampling_strategy: adaptive, adaptive_base_rate: "{rate}"}
loads: [{name: some, rate: 200, connections: 16}]
profiles: {smoke: {rounds: 1, warmup: 300ms, window: 1s}}
metrics: [cpu_service_us, sampled_share, sampled_decided, rate_mean, complete_share]
figures: [{id: a, title: rates, x: time, y: [rates], as: value, panel: workload}]
`
	dir := t.TempDir()
	file := filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, runs := experimentOf(t, dir, file, "smoke")
	seen := 0
	for _, r := range runs {
		if r.Tracer != "adaptive" {
			if len(r.Sampler) > 0 {
				t.Errorf("%s: %v", r.ID, r.Sampler)
			}
			continue
		}
		seen++
		requests := float64(r.Requests)
		arrived, decided := valueOf(t, r, record.SampledShare)*requests, valueOf(t, r, record.SampledDecided)*requests
		if missing := decided - arrived; missing < -0.5 || missing > valueOf(t, r, record.SpansDropped)+0.5 || decided < 1 {
			t.Errorf("%s: of %v traces, %v arrived: %v", r.ID, decided, arrived, r.Values)
		}
		// Each fifth request fails, and intervals have 20.
		if valueOf(t, r, record.RatePeak) < 0.89 || valueOf(t, r, record.RateMean) <= 0.3 || r.Failures == 0 {
			t.Errorf("%s: the rate was not raised: %v", r.ID, r.Sampler)
		}
		if valueOf(t, r, record.Complete) != 1 {
			t.Errorf("%s: %v", r.ID, r.Fidelity)
		}
		for i, s := range r.Sampler[1:] {
			if before := r.Sampler[i]; s.At <= before.At || s.Decided < before.Decided || s.Sampled < before.Sampled {
				t.Errorf("%s: %v after %v", r.ID, s, before)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d runs of the adaptive sampler", seen)
	}
}

func TestBenchCoroot(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip", "redis-server")
	m, runs := experimentOf(t, t.TempDir(), "coroot", "smoke")
	if m.Versions["redis-server"] == "" {
		t.Errorf("versions: %v", m.Versions)
	}
	profiled := 0
	for _, r := range runs {
		if r.Kind == record.Profiled {
			profiled++
			var total float64
			for _, s := range r.Shares {
				total += s.Micros
			}
			if total <= 0 {
				t.Errorf("%s: shares %v", r.ID, r.Shares)
			}
		}
		if r.Kind == record.Measured && r.Tracer == "tare" && valueOf(t, r, record.CoresTracer) <= 0 {
			t.Errorf("%s: the agent used no CPU time", r.ID)
		}
	}
	if profiled == 0 {
		t.Error("no CPU profile was taken")
	}
}

func TestBenchChain(t *testing.T) {
	t.Parallel()
	need(t, "ip", "nginx")
	_, runs := experimentOf(t, t.TempDir(), "chainscope-nginx", "smoke")
	checked := 0
	for _, r := range runs {
		if r.Kind != record.Checked {
			continue
		}
		checked++
		if valueOf(t, r, record.Complete) < 0.999 || valueOf(t, r, record.Wrong) != 0 || len(r.Programs) == 0 {
			t.Errorf("%s: %v, fidelity %v, %d programs", r.ID, r.Values, r.Fidelity, len(r.Programs))
		}
	}
	if checked == 0 {
		t.Error("no trace was checked")
	}
}

// Every placement that this kernel offers gives whole traces, and what it does not offer is named.
func TestBenchPlacement(t *testing.T) {
	t.Parallel()
	needLong(t)
	need(t, "ip", "nginx")
	m, runs := experimentOf(t, t.TempDir(), "placement", "smoke")
	traced := map[string]bool{}
	for _, r := range runs {
		switch r.Kind {
		case record.Measured:
			if valueOf(t, r, record.NetWithin) == 0 {
				t.Errorf("%s: no byte passed between the services", r.ID)
			}
			if traced := r.Tracer != "none"; traced != (valueOf(t, r, record.CPUAgent) > 0) || traced != (valueOf(t, r, record.NetReported) > 0) {
				t.Errorf("%s: the agent took %v µs and reported %v bytes for a request", r.ID, r.Values[record.CPUAgent], r.Values[record.NetReported])
			}
		case record.Checked:
			traced[r.Tracer] = true
			// What settles, settles in the warm-up, whose requests are not among those that are checked.
			if valueOf(t, r, record.Complete) < 0.999 || valueOf(t, r, record.Wrong) != 0 || len(r.Programs) == 0 {
				t.Errorf("%s: %v, fidelity %v, %d programs", r.ID, r.Values, r.Fidelity, len(r.Programs))
			}
		}
	}
	for _, tracer := range m.Experiment.Tracers[1:] {
		if reason := m.NotOffered[tracer.Name]; traced[tracer.Name] == (reason != "") {
			t.Errorf("%s: traced %v, not offered because of %q", tracer.Name, traced[tracer.Name], reason)
		}
	}
}

// buildHello builds the example, with the flags that make build uses: what it needs is built already.
func buildHello(t *testing.T, dir string) {
	t.Helper()
	sh(t, "go", "build", "-trimpath", "-o", filepath.Join(dir, "hello")+"/", "../docs/examples/hello")
}

// A user's own service, as docs/bench.md tells.
func TestBenchOwnService(t *testing.T) {
	t.Parallel()
	need(t, "ip")
	dir := t.TempDir()
	buildHello(t, dir)
	file, err := filepath.Abs("../docs/examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, runs := experimentOf(t, dir, file, "smoke")
	for _, r := range runs {
		if r.Variant == "sdk@1" && (valueOf(t, r, record.SampledShare) < 0.999 || valueOf(t, r, record.Complete) != 1) {
			t.Errorf("%s: %v", r.ID, r.Values)
		}
	}
}

func TestBenchResumesAfterKill(t *testing.T) {
	t.Parallel()
	need(t, "ip", "nginx")
	dir := t.TempDir()
	out := filepath.Join(dir, "results")
	var text bytes.Buffer
	cmd := exec.Command(tare, "bench", "run", "null", "--profile", "smoke", "--out", out, "--no-install")
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	testkit.Until(t, time.Minute, "a first run on the disk", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("ended by itself: %v\n%s", err, text.String())
		default:
		}
		_, runs, err := bench.Read(out)
		return err == nil && len(runs) > 0
	})
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	if text, err := runBench(t, dir, "run", "null", "--profile", "smoke", "--out", out); err == nil || !strings.Contains(text, "--resume") {
		t.Errorf("results were begun anew: %v\n%s", err, text)
	}
	again, err := runBench(t, dir, "run", "--resume", "--out", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	m, runs, err := bench.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	cells, err := m.Experiment.Cells("smoke")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		want += len(c.Variants) * m.Experiment.Profiles["smoke"].Rounds
	}
	if len(runs) != want {
		t.Errorf("%d runs after --resume, want %d\n%s", len(runs), want, again)
	}
}

func TestBenchSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	need(t, "ip")
	dir := t.TempDir()
	example, err := os.ReadFile("../docs/examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	buildHello(t, dir)
	for name, c := range map[string]struct{ old, replacement, want string }{
		"a wrong key":         {"health: ", "helth: ", "helth"},
		"a wrong driver":      {"driver: env", "driver: sdk", "there are collector, command, env, none, tare"},
		"a dead service":      {"[./hello/hello, --listen", "[./hello/hello, --lissen", "hello"},
		"no such program":     {"[./hello/hello, ", "[./hullo, ", "hullo"},
		"a service unhealthy": {"health: /health ", "health: /nothing ", "/nothing"},
		"another config":      {`sampling_rate: "{rate}"`, `sampling_rate: "7"`, "should say 7"},
		"a missing tool":      {"rate: 2000, connections: 50", "tool: ab, connections: 50", "apache2-utils"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(string(example), c.old, c.replacement, 1)
			if text == string(example) {
				t.Fatalf("the example has no %q any more", c.old)
			}
			if name == "a service unhealthy" {
				text = strings.Replace(text, "kind: command", "kind: command\n    ready_within: 2s", 1)
			}
			file := filepath.Join(dir, "wrong.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(tare, "bench", "run", file, "--profile", "smoke", "--out", filepath.Join(t.TempDir(), "out"), "--no-install")
			cmd.Dir = dir
			if name == "a missing tool" {
				cmd.Env = []string{"PATH=/nowhere"}
			}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v; want %q in:\n%s", err, c.want, out)
			}
		})
	}
}

// Without root there is no network namespace and no tracer of the kernel's, and
// the rest is measured all the same.
func TestBenchWithoutRoot(t *testing.T) {
	t.Parallel()
	need(t)
	dir, err := os.MkdirTemp("", "tare-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // nobody must write there
		t.Fatal(err)
	}
	sh(t, "cp", tare, dir) // nobody may not enter the one that this repository is in
	buildHello(t, dir)
	asNobody := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(dir, "tare"), append([]string{"bench"}, args...)...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	example, err := os.ReadFile("../docs/examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hello.yaml")
	if err := os.WriteFile(file, example, 0o644); err != nil { //nolint:gosec // nobody must read it
		t.Fatal(err)
	}
	out := filepath.Join(dir, "results")
	text, err := asNobody("run", file, "--profile", "smoke", "--out", out, "--no-install")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, runs, err := bench.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Notes) == 0 || !strings.Contains(m.LeftOut["tare@1"], "root") {
		t.Errorf("notes %v, left out %v", m.Notes, m.LeftOut)
	}
	for _, r := range runs {
		if _, counted := r.Values[record.NetOut]; counted || r.Failed != "" || r.Values[record.CPUService] <= 0 {
			t.Errorf("%s: %s, %v", r.ID, r.Failed, r.Values)
		}
	}
	// A port that somebody holds is found before anything is started.
	busy := testkit.FreePort(t)
	holder := exec.Command(filepath.Join(dir, "hello", "hello"), "--listen", "127.0.0.1:"+itoa(busy))
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	testkit.Until(t, 10*time.Second, "the holder to listen", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+itoa(busy))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	held := strings.Replace(string(example), "kind: command", "kind: command\n    port: "+itoa(busy), 1)
	if err := os.WriteFile(file, []byte(held), 0o644); err != nil { //nolint:gosec // nobody must read it
		t.Fatal(err)
	}
	text, err = asNobody("run", file, "--profile", "smoke", "--out", filepath.Join(dir, "held"), "--no-install")
	if err == nil || !strings.Contains(text, "in use") {
		t.Errorf("a busy port: %v\n%s", err, text)
	}
}

// Whatever is wrong with the collector, no request fails, and neither lean nor the agent asks
// for its name again and again; the server of names sees whoever asks. With a collector that answers, the traces of all
// requests are compared, and of nothing else: the laboratory asks the services, too, for what they run with and count.
func TestBenchBrokenCollectors(t *testing.T) {
	t.Parallel()
	need(t, "ip", "dnsmasq", "haproxy")
	const text = `
name: broken
workloads: [{name: functions, kind: functions-haproxy, read_back: /config, metrics: /metrics, env: {OTEL_BSP_SCHEDULE_DELAY: "100"}}]
tracers:
  - {name: none, driver: none, env: {TRACING_ENABLED: "false"}, expect: {tracing_enabled: "false"}}
  - &lean
    name: lean
    driver: env
    rates: [1]
    collector_fault: none
    env: &env {TRACING_ENABLED: "true", PIPELINE: lean, SAMPLING_STRATEGY: traceidratiobased, SAMPLING_RATE: "{rate}", COLLECTOR_ENDPOINT: "{otlp}"}
    expect: {pipeline: lean, collector_endpoint: "{otlp}"}
  - {<<: *lean, name: lean-silent, collector_fault: silent}
  - {<<: *lean, name: lean-refused, collector_fault: refused}
  - {<<: *lean, name: lean-unresolved, collector_fault: unresolved}
  - {name: sdk-unresolved, driver: env, rates: [1], collector_fault: unresolved, env: {<<: *env, PIPELINE: official}, expect: {pipeline: official}}
  - {name: agent, driver: tare, rates: [1], collector_fault: none}
  - {name: agent-unresolved, driver: tare, rates: [1], collector_fault: unresolved}
loads: [{name: some, rate: 200, connections: 8}]
profiles: {smoke: {rounds: 1, warmup: 1s, window: 2s, check: 200}}
metrics: [throughput_rps, success_share, dns_queries_per_s, cpu_proxy_us]
`
	dir := t.TempDir()
	file := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, runs := experimentOf(t, dir, file, "smoke")
	queries := map[string]float64{}
	checked := 0
	for _, r := range runs {
		if r.Kind == record.Checked {
			checked++
			traces, complete := r.Traces(), valueOf(t, r, record.Complete)
			if traces != 200 || complete < 0.99 || r.Tracer == "lean" && complete != 1 {
				t.Errorf("%s: %d traces of 200 requests, %v: %v", r.ID, traces, r.Values, r.Fidelity)
			}
			continue
		}
		queries[r.Tracer] = valueOf(t, r, record.DNSQueries)
		if r.Failures > 0 || valueOf(t, r, record.SuccessShare) != 1 || valueOf(t, r, record.CPUProxy) <= 0 {
			t.Errorf("%s: %d of %d requests failed: %v", r.ID, r.Failures, r.Requests, r.Errors)
		}
	}
	if checked != 2 {
		t.Errorf("%d runs are checked, those of lean and of the agent are due", checked)
	}
	// Eight questions are one look-up; lean may make one in the window, in each of three services.
	for _, tracer := range []string{"none", "lean", "lean-silent", "lean-refused", "lean-unresolved", "agent", "agent-unresolved"} {
		if n, ok := queries[tracer]; !ok || n > 13 {
			t.Errorf("%s: %v DNS queries in a second", tracer, n)
		}
	}
	if n := queries["sdk-unresolved"]; n == 0 {
		t.Error("the official SDK asked for no name: are queries not counted?")
	}
}
