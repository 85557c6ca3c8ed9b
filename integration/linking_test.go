package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// An event loop that slept between a receive and a send may have moved on. If nothing but what
// it waited for could end that sleep, it has not.
func TestLoopSleeps(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	const requests = 1000
	for mode, linked := range map[string]bool{"spawning": true, "pausing": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, s := newServers(t, "backend"), newSink(t)
			c.answers(python(mode)(c))
			a := trace(t, s, nil, append(c.ports, "--linking", "service=loop")...)
			send(t, load.Options{Addr: loopback(c.entry), Connections: 8, Requests: requests, AppendPath: numbered})
			m := a.settle()
			r := judge(t, s.all(), serve("service", "/n/", call("service", "/n/", serve("backend", "/n/"))))
			if linked { // what else makes it sleep, makes it sleep a second time
				wantComplete(t, r, m, requests, 0.98)
				return
			}
			// A pause whose end has come before the loop sleeps is none: that call is linked, rightly.
			if stale := m.int(`tare_unlinked_total{reason="stale"}`); r.Complete > requests/100 || stale+r.Complete < requests {
				t.Errorf("%d of %d requests are linked, %d calls are stale\n%v", r.Complete, requests, stale, m)
			}
		})
	}
}

// What is said of all services fills in where the runtime is not recognised:
// nginx stays an event loop under --linking thread. What is said of one service
// wins over what is recognised.
func TestLinkingOfAllFillsIn(t *testing.T) {
	t.Parallel()
	need(t)
	const requests = 4000
	c, s := start(t, "nginx"), newSink(t)
	drive := func(args ...string) (from int, m metrics) {
		t.Helper()
		from = s.count()
		a := trace(t, s, nil, append(ports(c), args...)...)
		send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: requests, AppendPath: c.AppendPath})
		m = a.settle()
		a.Stop()
		return from, m
	}
	from, m := drive("--linking", "thread")
	wantComplete(t, judge(t, s.since(from), shapeOf(t, "nginx")), m, requests, 0.999)

	from, m = drive("--linking", "thread", "--linking", "proxy=none")
	for _, sp := range s.since(from) {
		if linking, _ := sp.Attr("tare.linking"); sp.Resource.Service == "proxy" && linking.Str != "none" {
			t.Fatalf("linked, though a rule says none: %s", describe(&sp))
		}
	}
	if m[`tare_unlinked_total{reason="runtime"}`] == 0 {
		t.Errorf("no unlinked message counted:\n%v", m)
	}
}
