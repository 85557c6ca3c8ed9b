package integration

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// Services whose files and mappings are made to exhaust the agent cost it no more memory than it has
// under the documented limit, they are counted, and others are traced.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "sh", "python3")
	const limit = 112 << 20
	group := newControlGroup(t, "memory", map[string]string{"memory.max": itoa(limit)}, map[string]string{"memory.limit_in_bytes": itoa(limit)})
	c, s := start(t, "nginx"), newSink(t)
	script, err := filepath.Abs("testdata/hostile.py")
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), "python3", "-c", "import os, sys; print(os.path.realpath(sys.executable), sys.base_prefix)").Output()
	python := strings.Fields(string(text))
	if err != nil || len(python) != 2 {
		t.Fatalf("%q, %v", text, err)
	}
	args := ports(c)
	for _, kind := range []string{"library", "library", "mappings", "arguments"} {
		dir := t.TempDir()
		exe := filepath.Join(dir, "java")
		b, err := os.ReadFile(python[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(exe, b, 0o755); err != nil { //nolint:gosec // an executable
			t.Fatal(err)
		}
		port := itoa(testkit.FreePort(t))
		cmd := exec.CommandContext(t.Context(), exe, script, kind, port, filepath.Join(dir, "libjvm.so"))
		cmd.Env = append(os.Environ(), "PYTHONHOME="+python[1])
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its children, too
			_ = cmd.Wait()
		})
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		args = append(args, "--port", kind+port+"="+port)
	}
	a := launchAs(t, s, nil, append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group.dir, filepath.Join(bin, "tare-agent")}, args...)...)
	a.Await(2*time.Minute, "the agent traces", a.healthy)
	testkit.Until(t, 2*time.Minute, "what is too much is counted", func() bool {
		m := a.mustMetrics()
		return m.int(`tare_unread_total{limit="bytes"}`)+m.int(`tare_unread_total{limit="work"}`)+m.int(`tare_unread_total{limit="stuck"}`) > 0 && m.int(`tare_unread_total{limit="shape"}`) > 0
	})
	o := load.Options{Addr: c.Entry, Connections: 8, Requests: 500, AppendPath: c.AppendPath}
	send(t, o)
	m := a.settle()
	if built := m.int("tare_spans_total"); built != s.count()+m.notExported() || s.count() < 500 {
		t.Errorf("%d spans were built, %d arrived, %d are counted as lost", built, s.count(), m.notExported())
	}
	mib := resident(t, a.PID())
	if t.Logf("limit %d MiB; %.0f MiB resident", limit>>20, mib); mib > 60 {
		t.Errorf("%.0f MiB resident, more than 60", mib)
	}
}
