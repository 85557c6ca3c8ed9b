package workloads

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

func TestThesis(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off") // is not inherited
	t.Setenv("TRACING_ENABLED", "true")
	bin := servicetest.Build(t, "thesis")
	c := startWith(t, "thesis", Options{Bin: bin, Env: map[string]string{"PAYLOAD_SIZE": "7"}})
	assert.Equal(t, "x/api/basic", string(c.AppendPath([]byte("x"), 3)), "path")
	if status, body := get(t, c, "/api/basic"); status != 200 || !strings.Contains(body, "332833500") {
		t.Errorf("%d %q", status, body)
	}
	_, body := get(t, c, "/config")
	if !strings.Contains(body, `"tracing_enabled":false`) || !strings.Contains(body, `"payload_size":7`) {
		t.Errorf("%s", body)
	}
	if s := c.Services[0]; len(c.Services) != 1 || s.Name != "thesis" || s.Exe != filepath.Join(bin, "tare-thesis") || s.Dependency {
		t.Errorf("%+v", c.Services)
	}
	assert.NoError(t, c.Stop())
	gone(t, c)
}

// Each of the services says the same of itself; the last one alone fails, and all of
// them are asked.
func TestThesisChain(t *testing.T) {
	bin := servicetest.Build(t, "thesis")
	c := startWith(t, "thesis-3", Options{Bin: bin, Env: map[string]string{"INJECT_ERRORS": "0.5"}})
	assert.Equal(t, "x/api/basic/3", string(c.AppendPath([]byte("x"), 3)), "path")
	for n, want := range []int{http.StatusOK, http.StatusBadGateway} {
		if status, body := get(t, c, string(c.AppendPath(nil, uint64(n)))); status != want {
			t.Errorf("request %d: %d %s", n, status, body)
		}
	}
	var names []string
	for i, s := range c.Services {
		names = append(names, s.Name)
		status, body := getFrom(t, net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), "/config")
		if last := i == len(c.Services)-1; status != http.StatusOK || !s.Alike || strings.Contains(body, `"inject_errors":0.5`) != last || strings.Contains(body, `"next":""`) != last {
			t.Errorf("%s: %+v, %s", s.Name, s, body)
		}
	}
	if strings.Join(names, " ") != "first second third" || len(c.PIDs()) != 3 {
		t.Errorf("services %v, processes %v", names, c.PIDs())
	}
	if got := c.Truth.Within()(3); got.Spans() != 5 || got.String() != "first server /api/basic/" {
		t.Errorf("shape %+v", got)
	}
	assert.NoError(t, c.Stop())
	gone(t, c)
}

func TestCounter(t *testing.T) {
	c := startWith(t, "counter", Options{Bin: servicetest.Build(t, "counter"), Path: "/"})
	for _, want := range []string{"1", "2"} {
		if status, body := get(t, c, string(c.AppendPath(nil, 8))); status != 200 || body != want {
			t.Errorf("%d %q", status, body)
		}
	}
	if s := c.Services; len(s) != 2 || s[0].Name != "counter" || s[0].Dependency || s[1].Name != "redis" || !s[1].Dependency {
		t.Errorf("%+v", s)
	}
	if pids := c.PIDs(); len(pids) != 1 || pids[0] != c.Services[0].PIDs[0] {
		t.Errorf("%v of %+v", pids, c.Services)
	}
	// After a restart, it is the new process that is under test.
	require.NoError(t, c.Restart(t.Context(), "counter"))
	if pids := c.PIDs(); len(pids) != 1 || pids[0] != c.Services[0].PIDs[0] {
		t.Errorf("after a restart: %v of %+v", pids, c.Services)
	}
	assert.NoError(t, c.Stop())
	gone(t, c)
}

// A setting that the service refuses is what the user reads.
func TestServiceThatRefuses(t *testing.T) {
	bin := servicetest.Build(t, "thesis")
	_, err := Start(t.Context(), "thesis", Options{Bin: bin, Env: map[string]string{"SAMPLING_RATE": "7"}})
	assert.ErrorContains(t, err, `SAMPLING_RATE: "7" is not a number from 0 to 1`)
}

func TestOptionsThatNobodyObeysAreErrors(t *testing.T) {
	for _, c := range []struct {
		chain string
		opts  Options
		want  string
	}{
		{"nginx", Options{Env: map[string]string{"B": "1", "A": "1"}}, "leave out A, B"},
		{"shop", Options{Path: "/x"}, `leave the path "/x" out`},
		{"counter", Options{Path: "/x"}, `leave the path "/x" out`},
		{"counter", Options{Env: map[string]string{"REDIS_SERVER": "x"}}, "REDIS_SERVER is set by the laboratory"},
		{"thesis", Options{Env: map[string]string{"LISTEN": "x"}}, "LISTEN is set by the laboratory"},
		{"thesis", Options{Path: "api"}, "slash"},
		{"thesis-2", Options{Env: map[string]string{"NEXT": "http://x"}}, "NEXT is set by the laboratory"},
		{"thesis-2", Options{Path: "/api/deep-spans"}, "the path of its requests is its own"},
	} {
		if _, err := Start(t.Context(), c.chain, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v", c.chain, c.opts, err)
		}
	}
}

func TestServiceBinary(t *testing.T) {
	path, other := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	if _, err := serviceBinary("tare-test-x", ""); err == nil ||
		!strings.Contains(err.Error(), "tare-test-x is not built: run `make build`, or put it beside tare") {
		t.Errorf("nowhere: %v", err)
	}
	for _, dir := range []string{path, other} {
		if err := os.WriteFile(filepath.Join(dir, "tare-test-x"), []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if got, err := serviceBinary("tare-test-x", ""); err != nil || got != filepath.Join(path, "tare-test-x") {
		t.Errorf("in PATH: %q, %v", got, err)
	}
	if got, err := serviceBinary("tare-test-x", other); err != nil || got != filepath.Join(other, "tare-test-x") {
		t.Errorf("where it is said to be: %q, %v", got, err)
	}
	if _, err := serviceBinary("tare-test-y", other); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("not where it is said to be: %v", err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	if got, err := serviceBinary(filepath.Base(self), ""); err != nil || got != self {
		t.Errorf("beside the running one: %q, %v", got, err)
	}
}

func TestVersions(t *testing.T) {
	dir := servicetest.Build(t, "thesis", "counter")
	for name, want := range map[string][]string{
		"counter": {"go", "otel", "otel-sdk", "otelhttp", "otlptracehttp", "grpc", "go-redis", "redisotel", "redis-server"},
		"thesis":  {"go", "otel", "otel-sdk", "otelhttp", "otlptracehttp", "grpc"},
		"shop":    {"nginx", "python3", "redis-server", "memcached"},
	} {
		opts := Options{}
		if name != "shop" {
			opts.Bin = dir
		}
		versions := startWith(t, name, opts).Versions(t.Context())
		for _, key := range want {
			if v := versions[key]; v == "" || v[0] < '0' || v[0] > '9' {
				t.Errorf("%s: version %q of %s", name, v, key)
			}
		}
		assert.Equal(t, len(want), len(versions), "%s: %v", name, versions)
	}
}
