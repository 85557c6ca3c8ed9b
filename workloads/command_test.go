package workloads

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page completes a command: a small HTTP server that says who and where it is.
func page(t *testing.T, cmd Command) Command {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs /usr/bin/python3")
	}
	const program = `
import http.server, os, sys, time
class H(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        H.asked += 1
        self.send_response(503 if self.path == "/never" or self.path == "/third" and H.asked < 3 else 200)
        self.end_headers()
        self.wfile.write(("hello from %s, %s, in %s, %s" % (sys.argv[1], os.environ.get("WORD"), os.getcwd(), sorted(k for k in os.environ if k.startswith("OTEL_")))).encode())
    def log_message(self, *a): pass
print("about to listen", flush=True)
http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), H).serve_forever()
`
	if cmd.Argv == nil {
		port := "{port}"
		if cmd.Port != 0 {
			port = fmt.Sprint(cmd.Port)
		}
		cmd.Argv = []string{"/usr/bin/python3", "-I", "-S", "-c", program, "{host}", port}
	}
	cmd.Name = "page"
	return cmd
}

func startCommand(t *testing.T, cmd Command, opts Options) (*Chain, error) {
	t.Helper()
	opts.Command = &cmd
	return Start(t.Context(), "command", opts)
}

func TestCommand(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	t.Setenv("INHERITED", "yes")
	cmd := page(t, Command{Health: "/third"})
	c, err := startCommand(t, cmd, Options{Path: "/x", Env: map[string]string{"WORD": "at {host}", "OTEL_SERVICE_NAME": "x"}})
	require.NoError(t, err)
	stopLater(t, c)
	wd, err := os.Getwd()
	require.NoError(t, err)
	path := string(c.AppendPath(nil, 5))
	assert.Equal(t, "/x", path, "path")
	want := "hello from 127.0.0.1, at 127.0.0.1, in " + wd + ", ['OTEL_SERVICE_NAME']"
	if status, body := get(t, c, path); status != 200 || body != want {
		t.Errorf("%d %q, not %q", status, body, want)
	}
	if c.Name != "page" || len(c.Services) != 1 || c.Services[0].Dependency || len(c.PIDs()) != 1 {
		t.Errorf("%+v", c)
	}
	assert.NoError(t, c.Stop())
	if pids := c.PIDs(); len(pids) > 0 {
		t.Errorf("after the stop: %v", pids)
	}
	gone(t, c)
}

func TestCommandsThatCannotStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	busy := l.Addr().(*net.TCPAddr).Port
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script, "{port}"} }
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		cmd  Command
		opts Options
		want []string
	}{
		"nothing":      {Command{}, Options{}, []string{"nothing to start"}},
		"no port":      {Command{Argv: []string{"true"}}, Options{}, []string{"put {port} into"}},
		"wrong port":   {Command{Argv: []string{"true"}, Port: 65536}, Options{}, []string{"port 65536"}},
		"wrong name":   {Command{Name: "../x", Argv: sh("")}, Options{}, []string{"name"}},
		"wrong health": {Command{Argv: sh(""), Health: "ok"}, Options{}, []string{"slash"}},
		"wrong path":   {Command{Argv: sh("")}, Options{Path: "ok"}, []string{"slash"}},
		"no program":   {Command{Argv: []string{"tare-no-such-program", "{port}"}}, Options{}, []string{`cannot start "tare-no-such-program"`, "not found"}},
		"busy":         {Command{Argv: sh(""), Port: busy}, Options{}, []string{fmt.Sprintf("port %d is in use by %s", busy, comm(t))}},
		"exits":        {Command{Name: "x", Argv: sh("echo out of luck >&2; exit 4")}, Options{}, []string{"x ended (exit status 4)", "out of luck"}},
		"exits well":   {Command{Argv: sh("exit 0")}, Options{}, []string{"ended (exit status 0)"}},
		"hangs": {
			Command{Argv: sh("echo waiting for Godot; exec sleep 1000")}, Options{ReadyWithin: 300 * time.Millisecond},
			[]string{"no listener on 127.0.0.1:", "after 300ms", "waiting for Godot"},
		},
		"unhealthy": {
			page(t, Command{Health: "/never"}), Options{ReadyWithin: 3 * time.Second},
			[]string{"has no 2xx from http://127.0.0.1:", "/never: it answers 503", "about to listen"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			chain, err := startCommand(t, c.cmd, c.opts)
			if err == nil {
				_ = chain.Stop()
				t.Fatal("no error")
			}
			for _, want := range c.want {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is under test is what runs now, not what ran at the start.
func TestPIDsAreThoseOfNow(t *testing.T) {
	// It forks when it is told to.
	const program = `
import os, socket, sys, time
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    c, _ = s.accept()
    if c.recv(10):
        if os.fork() == 0: time.sleep(1000)
        c.sendall(b"forked")
    c.close()
`
	cmd := page(t, Command{Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", program, "{host}", "{port}"}})
	c, err := startCommand(t, cmd, Options{})
	require.NoError(t, err)
	stopLater(t, c)
	if got := c.PIDs(); !slices.Equal(got, c.Services[0].PIDs) || len(got) != 1 {
		t.Errorf("%v, %+v", got, c.Services)
	}
	conn, err := net.Dial("tcp", c.Entry)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "fork"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if got := c.PIDs(); len(got) != 2 || got[0] != c.Services[0].PIDs[0] {
		t.Errorf("after a fork: %v", got)
	}
}
