package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/lab/load"
)

// An agent that does not read loses records: they are counted, traces are
// incomplete, none is wrong and no service notices. When it reads again, it
// traces again.
func TestSlowReader(t *testing.T) {
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 32, AppendPath: c.AppendPath})
	l.more(500)
	a.signal(syscall.SIGSTOP)
	// 4 MiB hold some 4,000 requests of the chain.
	l.more(12000)
	a.signal(syscall.SIGCONT)
	until(t, 5*time.Second, "the agent answers again", a.healthy)
	l.more(500)
	l.end()
	const waiting = 12000 // spans whose end was lost
	m := a.quiet(waiting)
	if m.lost("ring_full") == 0 {
		t.Errorf("nothing was lost:\n%v", m)
	}
	r := judge(t, s.all(), shapeOf(t, "nginx"))
	r.Expect(m.sampled())
	if r.IncompleteTotal() == 0 {
		t.Errorf("records were lost, and every trace is complete:\n%v", m)
	}

	before := s.count()
	again := send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: 2000, First: 1 << 32, AppendPath: c.AppendPath})
	m = a.quiet(waiting)
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m, int(again.OK), 0.999)
}
