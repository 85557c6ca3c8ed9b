package integration

import (
	"fmt"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// shared has this host reach a network over a bridge that a virtual machine may be on: who has its
// addresses is not known here.
func shared(t *testing.T, network string) {
	t.Helper()
	name := "tare" + anotherName()
	bridge, port := name+"b", name+"p"
	sh(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { sh(t, "ip", "link", "del", bridge) })
	sh(t, "ip", "tuntap", "add", "mode", "tap", "name", port)
	t.Cleanup(func() { sh(t, "ip", "link", "del", port) })
	sh(t, "ip", "link", "set", port, "master", bridge)
	sh(t, "ip", "link", "set", bridge, "up")
	sh(t, "ip", "route", "add", network, "dev", bridge)
}

// Addresses that may be this host's: where both ends of a connection are traced here, the context
// goes from socket to socket, and nothing at all is on the wire. The first request may overtake the
// handshake, or complete it.
func TestNear(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name   string
		proxy  func(listen, upstream string) string
		answer func(listen string) string
	}{
		{"pool", proxyTo, answer},
		{"connection for each request", proxyAnew, answer},
		{"deferred", proxyAnew, answerDeferred},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			shared(t, h.net4)
			w, s := wireTo(t, h, ipv4, h.b4, v.proxy, v.answer), newSink(t)
			a := trace(t, s, nil, "--port", "proxy="+itoa(w.proxy), "--port", "backend="+itoa(w.backend))
			seen := watch(t, h.b, cable, w.backend)
			const requests = 3000
			send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
			m := a.settle()
			seen.atLeast(t, 2*requests)
			if packets, tags, marks := seen.seen(); tags+marks > 0 {
				t.Errorf("%d tags and %d marks in %d packets", tags, marks, packets)
			}
			wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
		})
	}
}

// A traced network namespace that gives itself another host's address gains nothing by it, nor does
// that host.
func TestClaimedAddress(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	shared(t, h.net4)
	hostile := h.a + "h"
	makeNamespaces(t, hostile)
	sh(t, "ip", "-n", hostile, "address", "add", h.a4+"/32", "dev", "lo")
	st, s, port, other := newStack(t), newSink(t), testkit.FreePort(t), testkit.FreePort(t)
	st.nginxUnready("proxy", h.b, answer(h.b4+":"+itoa(port)))
	st.nginxUnready("hostile", hostile, answer(h.a4+":"+itoa(other)))
	f := newForger(t, h, port)
	testkit.Until(t, deadline, "nginx listens", func() bool { return st.listens(h.b, port) && st.listens(hostile, other) })
	a := trace(t, s, nil, "--port", "proxy="+itoa(port), "--port", "hostile="+itoa(other))
	const requests = 20
	for i := range byte(requests) {
		f.request(fmt.Sprintf("/n/%d", i), forged{onData: tag(1, i+1)})
	}
	m := a.settle()
	if m.ignored("untrusted") != requests || m.sampled() != requests {
		t.Errorf("%d untrusted tags, %d root decisions:\n%v", m.ignored("untrusted"), m.sampled(), m)
	}
	for _, sp := range s.all() {
		if !sp.Parent.IsZero() {
			t.Errorf("not a trace of its own: %s", describe(&sp))
		}
	}
}
