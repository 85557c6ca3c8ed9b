package servicetest

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// Process is a service that runs, on a free loopback port.
type Process struct {
	*testkit.Child
	URL string // http://host:port
}

// Start builds a service (thesis, counter) and starts it with nothing but env.
func Start(t *testing.T, name string, env map[string]string) *Process {
	t.Helper()
	cmd := command(t, name, env)
	p := &Process{Child: testkit.Spawn(t, name, syscall.SIGTERM, 15*time.Second, cmd.Env, cmd.Path)}
	t.Cleanup(p.Kill) // before it would have to end well
	p.Await(15*time.Second, name+" listens", func() bool {
		_, after, ok := strings.Cut(p.Said(), "listening on ")
		url, _, whole := strings.Cut(after, "\n")
		p.URL = url
		return ok && whole
	})
	return p
}

func command(t *testing.T, name string, env map[string]string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(Build(t, name), "tare-"+name))
	cmd.Env = []string{"LISTEN=127.0.0.1:0"}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// Fails starts a service that must end by itself with an error, and returns
// what it wrote.
func Fails(t *testing.T, name string, env map[string]string) string {
	t.Helper()
	cmd := command(t, name, env)
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%s with %v: %v, not exit status 1\n%s", name, env, cmd.ProcessState, out)
	}
	return string(out)
}

// Said is what the process wrote.
func (p *Process) Said() string { return p.Log.String() }

// Terminate sends SIGTERM and returns the exit status when the process ended.
func (p *Process) Terminate() int {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.T.Fatal(err)
	}
	testkit.Until(p.T, 15*time.Second, "the service ends", p.Over)
	return p.Cmd.ProcessState.ExitCode()
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// Get asks for a path.
func (p *Process) Get(path string) (status int, body string) {
	p.T.Helper()
	return p.Do(path, nil)
}

// Do asks for a path with some headers.
func (p *Process) Do(path string, header map[string]string) (status int, body string) {
	p.T.Helper()
	return p.do(http.MethodGet, path, header, nil)
}

// Post sends a body to a path.
func (p *Process) Post(path string, body io.Reader) (status int, answer string) {
	p.T.Helper()
	return p.do(http.MethodPost, path, nil, body)
}

func (p *Process) do(method, path string, header map[string]string, body io.Reader) (status int, answer string) {
	p.T.Helper()
	req, err := http.NewRequestWithContext(p.T.Context(), method, p.URL+path, body)
	if err != nil {
		p.T.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		p.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.T.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Config is what /config answers.
func (p *Process) Config() map[string]any {
	p.T.Helper()
	status, body := p.Get("/config")
	var config map[string]any
	if err := json.Unmarshal([]byte(body), &config); err != nil || status != http.StatusOK {
		p.T.Fatalf("/config: %d %q: %v", status, body, err)
	}
	return config
}
