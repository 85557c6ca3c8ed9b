package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/workloads"
)

// The test binary plays what Run starts, too, by the name that it is called by:
// see binaries.
func TestMain(m *testing.M) {
	var play func([]string) error
	switch name := filepath.Base(os.Args[0]); {
	case name == "tare-agent":
		play = playAgent
	case name == "tare" && os.Args[1] == "run":
		play = playRun
	default:
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// binaries makes tare and tare-agent of the test binary.
func binaries(t *testing.T) (tare string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"tare", "tare-agent"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	return filepath.Join(dir, "tare")
}

// playAgent claims to have traced PLAY_TRACES requests and sends their spans
// when it is stopped; it sees nothing.
func playAgent(args []string) error {
	if os.Getenv("PLAY_CRASH") == "agent" {
		return errors.New("operation not permitted: no BPF here")
	}
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	b, err := os.ReadFile(flags["--config"])
	if err != nil {
		return err
	}
	var conf struct {
		Services []struct{ Ports []int }
	}
	if err := yaml.Unmarshal(b, &conf); err != nil || len(conf.Services) == 0 || conf.Services[0].Ports[0] == 0 {
		return fmt.Errorf("configuration %s: %w", b, err)
	}
	n, _ := strconv.Atoi(os.Getenv("PLAY_TRACES"))
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# TYPE tare_roots_total counter\ntare_roots_total{sampled=\"true\"} %d\n", n)
		_, _ = fmt.Fprintf(w, "# TYPE tare_sampling_ratio gauge\ntare_sampling_ratio %s\n", os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
		_, _ = io.WriteString(w, "# TYPE tare_lost_total counter\ntare_lost_total{reason=\"ring_full\"} 3\n")
	})
	go func() { _ = http.ListenAndServe(flags["--listen"], mux) }() //nolint:gosec // a test
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	for i := 1; i <= n; i++ {
		if i == 2 {
			continue // lost
		}
		body := otlpBody(nginxTrace(uint64(i)))
		resp, err := http.Post(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+"/v1/traces", "application/x-protobuf", bytes.NewReader(body)) //nolint:gosec // a test
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
	}
	return nil
}

// needRoot skips what only root can do; CI must be able to.
func needRoot(t *testing.T) {
	t.Helper()
	missing, err := workloads.Missing("nginx")
	require.NoError(t, err)
	if os.Geteuid() == 0 && len(missing) == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("uid %d, not installed: %v", os.Geteuid(), missing)
	}
	t.Skipf("uid %d, not installed: %v", os.Geteuid(), missing)
}

func quick(t *testing.T) Options {
	t.Helper()
	o := Defaults()
	o.Tare, o.Page = binaries(t), ""
	o.Chain, o.Requests, o.Rounds, o.Window, o.Concurrency = "nginx", 50, 0, time.Second, 4
	return o
}

// nothingLeft checks the temporary directory that a test was given.
func nothingLeft(t *testing.T) func() {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	return func() {
		t.Helper()
		left, err := filepath.Glob(filepath.Join(tmp, "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestRunReportsWhatTheAgentSent(t *testing.T) {
	needRoot(t)
	t.Setenv("PLAY_TRACES", "50")
	check := nothingLeft(t)
	o := quick(t)
	o.JSON = true
	var out, progress bytes.Buffer
	require.NoError(t, Run(t.Context(), o, &out, &progress))
	check()
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if r.Requests != 50 || r.Failed != 0 || r.Sampled != 50 || r.Complete != 49 || r.Incomplete != 1 ||
		r.IncompleteBy["no span arrived"] != 1 || r.Lost["ring_full"] != 3 || r.Wrong != 0 {
		t.Errorf("result %s", out.String())
	}
	assert.Contains(t, progress.String(), "remaining: fidelity run", "progress")
	o.JSON = false
	out.Reset()
	require.NoError(t, Run(t.Context(), o, &out, io.Discard))
	for _, want := range []string{"└─ proxy", "   └─ backend", "server GET /n/", "98.000%", "ring_full"} {
		assert.Contains(t, out.String(), want)
	}
}

func TestBlindAgentIsNoCheapAgent(t *testing.T) {
	needRoot(t)
	check := nothingLeft(t)
	o := quick(t)
	o.Rounds = 1
	err := Run(t.Context(), o, io.Discard, io.Discard)
	assert.ErrorContains(t, err, "blind")
	check()
}

func TestAgentThatDoesNotStart(t *testing.T) {
	needRoot(t)
	t.Setenv("PLAY_CRASH", "agent")
	check := nothingLeft(t)
	for _, rounds := range []int{0, 8} {
		o := quick(t)
		o.Rounds = rounds
		var progress bytes.Buffer
		err := Run(t.Context(), o, io.Discard, &progress)
		if err == nil || !strings.Contains(err.Error(), "no BPF here") || !strings.Contains(err.Error(), "tare doctor") {
			t.Errorf("error %v", err)
		}
		assert.NotContains(t, progress.String(), "remaining: round", "untraced rounds were measured in vain")
	}
	check()
}

func TestInterruptLeavesNothing(t *testing.T) {
	needRoot(t)
	check := nothingLeft(t)
	o := quick(t)
	o.Requests = 1 << 40
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := Run(ctx, o, io.Discard, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("error %v", err)
	}
	check()
}

func TestOptionsThatCannotWork(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"chain":       func(o *Options) { o.Chain = "none" },
		"requests":    func(o *Options) { o.Requests = 0 },
		"concurrency": func(o *Options) { o.Concurrency = 0 },
		"sample":      func(o *Options) { o.Sample = 1.5 },
		"rounds":      func(o *Options) { o.Rounds = -1 },
		"window":      func(o *Options) { o.Rounds, o.Window = 1, time.Millisecond },
	} {
		o := quick(t)
		spoil(&o)
		assert.ErrorContains(t, Run(t.Context(), o, io.Discard, io.Discard), name)
	}
}

func TestCommand(t *testing.T) {
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--chain", "nginx", "--requests", "0", "--sample", "0.5", "--rounds", "3", "--json"})
	assert.ErrorContains(t, cmd.ExecuteContext(t.Context()), "--requests")
}
