package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What `make demo` ends with: the shop's traces and its map on the page, until
// Ctrl-C, and nothing left behind.
func TestDemoServesThePage(t *testing.T) {
	need(t, "redis-server", "memcached", "nginx", "python3")
	tmp := t.TempDir()
	w := &whole{t: t, page: loopback(freePort(t)), log: &logBuffer{}, done: make(chan struct{})}
	w.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), tare, "demo", "--chain", "shop", "--rounds", "0",
		"--requests", "200", "--page", w.page, "--no-install")
	w.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait() // ProcessState tells
		close(w.done)
	}()
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Logf("tare demo wrote:\n%s", w.log)
		}
	})
	until(t, 2*time.Minute, "the page is announced", func() bool {
		select {
		case <-w.done:
			t.Fatalf("the demo ended: %v\n%s", w.cmd.ProcessState, w.log)
		default:
		}
		return strings.Contains(w.log.String(), "page: http://"+w.page+"/")
	})
	until(t, time.Minute, "the shop's traces are there, failed ones among them", func() bool {
		return len(w.traces("state=complete&service=shop")) > 30 && len(w.traces("status=error&service=proxy")) > 0
	})
	var shop struct {
		Edges []struct{ From, To string }
	}
	if !w.get("/api/v1/map?last=1h", &shop) || len(shop.Edges) != 4 {
		t.Errorf("map %+v, want proxy to shop, and shop to redis, memcached and stock", shop)
	}
	if broken := w.traces("state=incomplete"); len(broken) > 0 {
		t.Errorf("%d traces are incomplete, such as %+v", len(broken), broken[0])
	}
	w.stop()
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
