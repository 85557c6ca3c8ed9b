package servicetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a service that runs, on a free loopback port.
type Process struct {
	URL string // http://host:port

	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	said bytes.Buffer
}

// Start builds a service (thesis, counter) and starts it with nothing but env.
func Start(t *testing.T, name string, env map[string]string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: command(t, name, env), done: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			if u, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				url <- u
			}
		}
		_ = p.cmd.Wait() // ProcessState says how it ended
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if it ended
		<-p.done
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, p.Said())
		}
	})
	select {
	case p.URL = <-url:
	case <-p.done:
		t.Fatalf("%s ended: %v", name, p.cmd.ProcessState)
	case <-time.After(time.Minute):
		t.Fatalf("%s does not listen", name)
	}
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

// Said is what the process wrote to standard error.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// Terminate sends SIGTERM and returns the exit status when the process ended.
func (p *Process) Terminate() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatal("the service does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// Get asks for a path.
func (p *Process) Get(path string) (status int, body string) {
	p.t.Helper()
	return p.Do(path, nil)
}

// Do asks for a path with some headers.
func (p *Process) Do(path string, header map[string]string) (status int, body string) {
	p.t.Helper()
	return p.do(http.MethodGet, path, header, nil)
}

// Post sends a body to a path.
func (p *Process) Post(path string, body io.Reader) (status int, answer string) {
	p.t.Helper()
	return p.do(http.MethodPost, path, nil, body)
}

func (p *Process) do(method, path string, header map[string]string, body io.Reader) (status int, answer string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Config is what /config answers.
func (p *Process) Config() map[string]any {
	p.t.Helper()
	status, body := p.Get("/config")
	var config map[string]any
	if err := json.Unmarshal([]byte(body), &config); err != nil || status != http.StatusOK {
		p.t.Fatalf("/config: %d %q: %v", status, body, err)
	}
	return config
}
