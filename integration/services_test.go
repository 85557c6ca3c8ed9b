package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/workloads"
)

// deadline of what takes milliseconds on an idle machine.
const deadline = 10 * time.Second

func itoa(n int) string { return strconv.Itoa(n) }

// stack runs services that a test configures itself.
type stack struct {
	t *testing.T
	g *workloads.Group
}

func newStack(t *testing.T) *stack {
	t.Helper()
	g, err := workloads.NewGroup("tare-integration")
	if err != nil {
		t.Fatal(err)
	}
	g.Grace = testkit.Patient(10 * time.Second) // gunicorn waits up to 30 s for requests that are not over
	t.Cleanup(func() {
		defer testkit.Waited(t, time.Now(), "the services end")
		if err := g.Stop(); err != nil {
			t.Errorf("stop the services: %v", err)
		}
		testkit.Note(t, "cpu", g.CPU(), "services")
	})
	return &stack{t, g}
}

// service starts a program, in a network namespace if ns is not "".
func (s *stack) service(name, ns string, env []string, argv ...string) *workloads.Process {
	s.t.Helper()
	path := program(argv[0])
	if path == "" {
		refuse(s.t, "needs %s", argv[0])
	}
	argv = append([]string{path}, argv[1:]...)
	if ns != "" {
		argv = append([]string{program("ip"), "netns", "exec", ns}, argv...)
	}
	p, err := s.g.Start(name, argv, env)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// file writes a file below the stack's directory.
func (s *stack) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.g.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // workers enter it
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // no secrets
		s.t.Fatal(err)
	}
	return path
}

const nginxMain = `daemon off;
worker_processes 2;
worker_rlimit_nofile 65536;
user nobody nogroup;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_timeout 300s;
    client_max_body_size 64m;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    default_type text/plain;
%[2]s
}
`

// nginx starts an nginx whose http block holds the text, and waits until it
// listens at the address, where that can be reached from here.
func (s *stack) nginx(name, ns, http, address string) *workloads.Process {
	s.t.Helper()
	p := s.nginxUnready(name, ns, http)
	s.ready(p, address)
	return p
}

func (s *stack) nginxUnready(name, ns, http string) *workloads.Process {
	s.t.Helper()
	prefix := filepath.Join(s.g.Dir, name)
	conf := s.file(name+"/nginx.conf", fmt.Sprintf(nginxMain, prefix, http))
	return s.service(name, ns, nil, "nginx", "-p", prefix, "-c", conf)
}

// ready waits until a service accepts connections.
func (s *stack) ready(p *workloads.Process, address string) {
	s.t.Helper()
	testkit.Until(s.t, deadline, "something listens at "+address, func() bool {
		select {
		case <-p.Done():
			s.t.Fatal(p.Exited())
		default:
		}
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
}

// listens reports whether somebody listens on a port of a namespace.
func (s *stack) listens(ns string, port int) bool {
	out, err := socketsOf(s.t, ns, "state", "listening", "sport", "=", itoa(port))
	return err == nil && len(out) > 0
}

// socketsOf lists the TCP sockets of a namespace that pass a filter of ss, a
// line for each.
func socketsOf(t *testing.T, ns string, filter ...string) (string, error) {
	argv := append([]string{"netns", "exec", ns, program("ss"), "-Htn"}, filter...)
	out, err := exec.CommandContext(t.Context(), program("ip"), argv...).Output()
	return string(out), err
}

// proxyTo is an http block that passes everything on over a pool.
func proxyTo(listen, upstream string) string {
	return fmt.Sprintf(`
    upstream next { server %s; keepalive 64; }
    server {
        listen %s backlog=8192;
        location / {
            proxy_pass http://next;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }`, upstream, listen)
}

// proxyAnew is an http block that passes everything on over a connection for each request.
func proxyAnew(listen, upstream string) string {
	return fmt.Sprintf(`server { listen %s backlog=8192; location / { proxy_pass http://%s; } }`, listen, upstream)
}

// answer is an http block that answers everything with 13 bytes.
func answer(listen string) string {
	return fmt.Sprintf(`server { listen %s backlog=8192; location / { return 200 "hello world!\n"; } }`, listen)
}

// answerDeferred accepts connections with their first request.
func answerDeferred(listen string) string { return answer(listen + " deferred") }

// numbered is the path of request n, as in the chain nginx.
func numbered(dst []byte, n uint64) []byte {
	return strconv.AppendUint(append(dst, "/n/"...), n, 10)
}
