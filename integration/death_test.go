package integration

import (
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// An agent that is killed leaves nothing behind: no request fails, and within
// a second no program is loaded and no option is on the wire.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"--tag=tcp", tagIP} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			if tag == tagIP {
				needEgress(t)
			}
			killedUnderLoad(t, tag)
		})
	}
}

func killedUnderLoad(t *testing.T, tag string) {
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	wire := watch(t, "", "lo", c.Services[0].Port, c.Services[1].Port)
	a := trace(t, s, nil, append(ports(c), overWire, tag)...) // first: not every kernel lets it trace open connections
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 16, Rate: 2000, AppendPath: c.AppendPath})
	l.more(few(2000))
	wire.atLeast(t, few(2000))
	if packets, tags, _ := wire.seen(); tags == 0 {
		t.Errorf("no tag in %d packets while the agent runs: the capture sees nothing", packets)
	}
	ids, links := a.programs()
	if len(ids) < 5 || links < 5 || len(loaded(t, ids)) != len(ids) {
		t.Fatalf("the agent holds %d programs and %d links", len(ids), links)
	}
	a.Kill()
	testkit.Until(t, time.Second, "the programs are gone", func() bool { return len(loaded(t, ids)) == 0 })
	l.more(few(200)) // what was written before is no longer under way
	wire.forget()
	l.more(few(2000))
	wire.atLeast(t, few(2000))
	if packets, tags, marks := wire.seen(); tags > 0 || marks > 0 {
		t.Errorf("after the agent's death: %d tags and %d marks in %d packets", tags, marks, packets)
	}
	l.end()
	judge(t, s.all(), shapeOf(t, "nginx"))
}

// Agents, one after the other, most of them killed. No request fails,
// and the last agent traces as the first.
func TestRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	l := keepSending(t, load.Options{Addr: c.Entry, Connections: 8, Rate: 1000, AppendPath: c.AppendPath})
	times := 8
	if *long {
		times = 20
	}
	for i := range times {
		a := trace(t, s, nil, append(ports(c), ratio("0.2")...)...)
		l.more(few(200))
		ids, _ := a.programs()
		if i%4 == 3 {
			a.Stop()
		} else {
			a.Kill()
		}
		testkit.Until(t, time.Second, "the programs are gone", func() bool { return len(loaded(t, ids)) == 0 })
		if t.Failed() {
			return
		}
	}
	judge(t, s.all(), shapeOf(t, "nginx"))

	before := s.count()
	a := trace(t, s, nil, ports(c)...)
	l.more(few(1000))
	l.end()
	m := a.settle()
	r := judge(t, s.since(before), shapeOf(t, "nginx"))
	// The requests that were under way when it began have no beginning.
	wantComplete(t, r, m, m.sampled(), 0.98)
}
