package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/lab/load"
)

// In a control group that limits memory, and with the receiver away, the agent loses spans and
// counts them; the kernel does not end it, and it goes on when the receiver is back.
func TestLimitedMemory(t *testing.T) {
	need(t, "nginx", "sh")
	const limit = 112 << 20
	group := limitMemory(t, limit)
	c, s := start(t, "nginx"), newSink(t)
	s.away.Store(true)
	a := launchAs(t, s, nil, append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, filepath.Join(bin, "tare-agent")}, ports(c)...)...)
	a.await(2*time.Minute, "the agent traces", a.healthy)
	if !strings.Contains(a.log.String(), "limit_mib=112") {
		t.Errorf("the agent does not say that its memory is limited")
	}
	// More than the queue has room for.
	o := load.Options{Addr: c.Entry, Connections: 32, Requests: uint64(few(10_000)), AppendPath: c.AppendPath}
	until(t, 2*time.Minute, "the queue is full", func() bool {
		send(t, o)
		o.First += o.Requests
		return a.mustMetrics().int(`tare_lost_total{reason="queue_full"}`) > 0
	})
	s.away.Store(false)
	o.Requests = 200
	send(t, o)
	m := a.settle()
	if built := m.int("tare_spans_total"); built != s.count()+m.notExported() {
		t.Errorf("%d spans were built, %d arrived, %d are counted as lost", built, s.count(), m.notExported())
	}
	t.Logf("limit %d MiB; of %d spans %d are counted as lost; most memory: %.0f MiB resident", limit>>20, m.int("tare_spans_total"), m.notExported(), resident(t, a.pid()))
}

// limitMemory makes a control group of that many bytes.
func limitMemory(t *testing.T, bytes int) string {
	t.Helper()
	name := fmt.Sprintf("tare-test-%d", os.Getpid())
	for _, where := range []struct{ root, file string }{
		{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		if where.file == "memory.max" {
			// The controller is switched on for what is below.
			f, err := os.OpenFile(where.root+"/cgroup.subtree_control", os.O_WRONLY, 0)
			if err != nil {
				continue
			}
			_, err = f.WriteString("+memory")
			if errors.Join(err, f.Close()) != nil {
				continue
			}
		}
		dir := filepath.Join(where.root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			until(t, time.Minute, dir+" is empty", func() bool {
				err := os.Remove(dir)
				return err == nil || errors.Is(err, os.ErrNotExist)
			})
		})
		if err := os.WriteFile(filepath.Join(dir, where.file), []byte(strconv.Itoa(bytes)), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatal("there is no memory controller below /sys/fs/cgroup")
	return ""
}
