package integration

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// An agent that does not read loses records: they are counted, traces are
// incomplete, none is wrong and no service notices. When it reads again, it
// traces again.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 32, AppendPath: c.AppendPath})
	l.more(500)
	a.signal(syscall.SIGSTOP)
	// 4 MiB hold some 4,000 requests of the chain.
	l.more(12000)
	a.signal(syscall.SIGCONT)
	testkit.Until(t, 5*time.Second, "the agent answers again", a.healthy)
	l.more(500)
	l.end()
	const waiting = 12000 // spans whose end was lost
	m := a.quiet(waiting)
	if m.lost("ring_full") == 0 {
		t.Errorf("nothing was lost:\n%v", m)
	}
	wantRecords(t, m)
	r := judge(t, s.all(), shapeOf(t, "nginx"))
	r.Expect(m.sampled())
	if r.IncompleteTotal() == 0 {
		t.Errorf("records were lost, and every trace is complete:\n%v", m)
	}

	before := s.count()
	again := send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: 2000, First: 1 << 32, AppendPath: c.AppendPath})
	m = a.quiet(waiting)
	wantRecords(t, m)
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m, int(again.OK), 0.999)
}

// wantRecords checks that the agent has read each record for which the kernel side found
// room. Nothing is under way.
func wantRecords(t *testing.T, m metrics) {
	t.Helper()
	if m.int(recordsWritten) == 0 || m.unread() != 0 {
		t.Errorf("the kernel side wrote %d records, of which the agent has not read %d:\n%v", m.int(recordsWritten), m.unread(), m)
	}
}

// While an agent does not read, more processes start than there is room to tell it of, and
// a service after them: it knows that it was not told, and finds it.
func TestNewsWithoutRoom(t *testing.T) {
	t.Parallel()
	need(t, "sh", "nginx")
	st, s, port := newStack(t), newSink(t), itoa(testkit.FreePort(t))
	a := trace(t, s, nil, "--port", "web="+port)
	a.signal(syscall.SIGSTOP)
	sh(t, "sh", "-c", "i=0; while [ $i -lt 3000 ]; do /bin/true; i=$((i+1)); done")
	address := net.JoinHostPort("127.0.0.1", port)
	st.nginx("web", "", answer(address), address)
	a.signal(syscall.SIGCONT)
	testkit.Until(t, deadline, "the service is found", func() bool {
		m, err := a.metrics()
		return err == nil && m["tare_services"] == 1 && m["tare_control_full_total"] > 0
	})
	const requests = 100
	send(t, load.Options{Addr: address, Connections: 4, Requests: requests, AppendPath: numbered})
	m := a.settle()
	wantRoots(t, m, requests, requests)
	wantRecords(t, m)
}
