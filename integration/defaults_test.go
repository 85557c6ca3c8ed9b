package integration

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const shopScript = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`

// An agent and a collector meet on one host with no option of either but what to trace: in
// whichever order they start, and again after the collector was away.
func TestDefaultsMeet(t *testing.T) {
	alone(t, "the agent is the only one of the host, and has the default ports")
	need(t, "python3")
	m := newMachine(t)
	script := m.file("/tmp/shop.py", shopScript)
	m.serve(nil, "python3", script)
	agent := m.start([]string{"OTEL_BSP_SCHEDULE_DELAY=200"}, "tare", "agent", "--port", "8080", "--port", "81")
	agent.Await(2*time.Minute, "the agent says that nobody answers", func() bool {
		return strings.Contains(agent.Log.String(), "the receiver does not accept spans") && strings.Contains(agent.Log.String(), "msg=tracing")
	})
	for _, want := range []string{"endpoint=http://localhost:4318/v1/traces", "protocol=http/protobuf", `looked_for="a process that listens on port 81"`} {
		if !strings.Contains(agent.Log.String(), want) {
			t.Errorf("the agent does not say %s", want)
		}
	}
	if health, err := m.get("http://127.0.0.1:9464/healthz"); err != nil || !strings.HasPrefix(health, "tracing\n") || !strings.Contains(health, "http://localhost:4318/v1/traces") {
		t.Errorf("health: %q, %v", health, err)
	}

	collector := m.start(nil, "tare", "collector")
	agent.Await(time.Minute, "the receiver answers", func() bool { return strings.Contains(agent.Log.String(), "the receiver answers") })
	collector.Await(time.Minute, "a span of the service arrives", func() bool {
		if _, err := m.get("http://127.0.0.1:8080/item"); err != nil {
			return false
		}
		text, err := m.get("http://127.0.0.1:4680/api/v1/services")
		var list struct{ Services []struct{ Name string } }
		if err != nil || json.Unmarshal([]byte(text), &list) != nil || len(list.Services) == 0 {
			return false
		}
		if list.Services[0].Name != "shop" { // the script's name, not python3.11
			t.Fatalf("services %+v", list.Services)
		}
		return true
	})
	if health, err := m.get("http://127.0.0.1:9464/healthz"); err != nil || health != "tracing\n" {
		t.Errorf("health: %q, %v", health, err)
	}
	agent.Stop() // before the collector, which takes its last spans
}

// What cannot be obeyed is refused before anything is traced, by its name, and with the exit
// status of an error of usage.
func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318":   "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:99999":   "port",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://":   "no host",
		"OTEL_TRACES_EXPORTER=zipkin":                  "OTEL_TRACES_EXPORTER",
		"OTEL_SDK_DISABLED=true":                       "OTEL_SDK_DISABLED",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json": "grpc",
		"OTEL_TRACES_SAMPLER=jaeger_remote":            "parentbased_always_on",
	} {
		for _, argv := range [][]string{{tare, "agent"}, {tare + "-agent"}} {
			said, status := exits(t, []string{variable}, append(argv, "--port", "8080")...)
			if status != 2 || !strings.Contains(said, want) || !strings.Contains(said, "--help") {
				t.Errorf("%v with %s: exit status %d, want 2, with %q: %s", argv, variable, status, want, said)
			}
		}
	}
}

// Errors of usage have the exit status 2, and name the help that answers them; failures have 1.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"frobnicate": 2, "bench rum": 2, "bench run": 2, "bench run nothing-like-it": 2, "run --retention x": 2, "diagnose --last 7x": 2, "agent": 2, "attach x": 2,
		"collector valdate": 2, "bench compare /nowhere /nowhere": 1, "diagnose --store /nowhere --last 7d": 1, "collector validate --config /nowhere": 1,
		"version": 0, "bench": 0, "bench list": 0, "": 0,
	} {
		said, status := exits(t, nil, append([]string{tare}, strings.Fields(line)...)...)
		if status != want || want == 2 && !strings.Contains(said, "--help") {
			t.Errorf("tare %s: exit status %d, want %d: %s", line, status, want, said)
		}
	}
	if said, _ := exits(t, nil, tare, "collector", "--help"); len(said) > 4000 {
		t.Errorf("the collector's help has %d bytes: %s", len(said), said)
	}
	for line, want := range map[string]string{"bench run": "coroot", "demo --chain": "shop", "agent --sampler": "traceidratio", "run --tag": "ip"} {
		if said, _ := exits(t, nil, append([]string{tare, "__complete"}, append(strings.Fields(line), "")...)...); !strings.Contains(said, want) {
			t.Errorf("completion of %q lacks %q: %s", line, want, said)
		}
	}
}

// exits runs a command to its end.
func exits(t *testing.T, env []string, argv ...string) (said string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...) //nolint:gosec // the test's own
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var failure *exec.ExitError
	if err != nil && !errors.As(err, &failure) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
