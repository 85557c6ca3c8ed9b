package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// In a control group that limits memory, and with the receiver away, the agent loses spans and
// counts them; the kernel does not end it, and it goes on when the receiver is back.
func TestLimitedMemory(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "sh")
	const limit = 112 << 20
	group := newControlGroup(t, "memory", map[string]string{"memory.max": itoa(limit)}, map[string]string{"memory.limit_in_bytes": itoa(limit)})
	c, s := start(t, "nginx"), newSink(t)
	s.away.Store(true)
	a := launchAs(t, s, nil, append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group.dir, filepath.Join(bin, "tare-agent")}, ports(c)...)...)
	a.Await(2*time.Minute, "the agent traces", a.healthy)
	if !strings.Contains(a.Log.String(), "limit_mib=112") {
		t.Errorf("the agent does not say that its memory is limited")
	}
	// More than the queue has room for.
	o := load.Options{Addr: c.Entry, Connections: 32, Requests: uint64(few(10_000)), AppendPath: c.AppendPath}
	testkit.Until(t, 2*time.Minute, "the queue is full", func() bool {
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
	t.Logf("limit %d MiB; of %d spans %d are counted as lost; most memory: %.0f MiB resident", limit>>20, m.int("tare_spans_total"), m.notExported(), resident(t, a.PID()))
}
