package integration

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// daemon is a collector that runs: ours or the plain one.
type daemon struct {
	*testkit.Child
	// metrics is the address of its own Prometheus endpoint.
	metrics string
}

// quiet leaves out of a configuration what two collectors on one machine cannot
// both have, and says where its metrics are.
func quiet(metrics string) string {
	host, port, _ := strings.Cut(metrics, ":")
	return `
  telemetry:
    metrics:
      readers: [{pull: {exporter: {prometheus: {host: ` + host + `, port: ` + port + `, without_type_suffix: true, without_units: true, without_scope_info: true}}}}]
`
}

// collect runs `tare collector` with a configuration, to which the section of
// its own telemetry is added, and waits until everything in it runs.
func collect(t *testing.T, config string, args ...string) *daemon {
	t.Helper()
	metrics := loopback(testkit.FreePort(t))
	return collectFile(t, metrics, writeConfig(t, config+quiet(metrics)), nil, args...)
}

// collectPlain runs the framework's own components.
func collectPlain(t *testing.T, config string) *daemon {
	t.Helper()
	metrics := loopback(testkit.FreePort(t))
	return startDaemon(t, metrics, nil, filepath.Join(bin, "tare-plain-collector"), "--config", writeConfig(t, config+quiet(metrics)))
}

// collectFile runs `tare collector` with a file that is not the test's own.
func collectFile(t *testing.T, metrics, file string, env []string, args ...string) *daemon {
	t.Helper()
	return startDaemon(t, metrics, env, append([]string{tare, "collector", "--config", file}, args...)...)
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "collector.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func startDaemon(t *testing.T, metrics string, env []string, argv ...string) *daemon {
	t.Helper()
	name := filepath.Base(argv[0]) + " " + argv[1]
	d := &daemon{metrics: metrics, Child: testkit.Spawn(t, name, syscall.SIGTERM, time.Minute, append(os.Environ(), env...), argv...)}
	d.Await(time.Minute, name+" is ready", func() bool { return strings.Contains(d.Log.String(), "Everything is ready") })
	return d
}

// metric sums the samples of one name at its Prometheus endpoint.
func (d *daemon) metric(name string) float64 {
	d.T.Helper()
	return d.sum(func(series string) bool { return strings.HasPrefix(series, name+"{") || series == name })
}

// labelled sums those of them that have a label, as it stands there.
func (d *daemon) labelled(name, label string) float64 {
	d.T.Helper()
	return d.sum(func(series string) bool {
		return strings.HasPrefix(series, name+"{") && strings.Contains(series, label)
	})
}

func (d *daemon) sum(wanted func(series string) bool) (sum float64) {
	d.T.Helper()
	resp, err := noProxy.Get("http://" + d.metrics + "/metrics")
	if err != nil {
		d.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		d.T.Fatalf("metrics: %s", resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || !wanted(line[:at]) {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			d.T.Fatal(err)
		}
		sum += value
	}
	return sum
}

// refuses runs a command line that must fail, and returns what it said.
func refuses(t *testing.T, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, tare, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("tare %s: %v, want a failure\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
