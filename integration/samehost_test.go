package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// virtual is an address that is translated to the backend's, as that of a
// service in a cluster. For benchmarks, RFC 2544.
const virtual = "198.18.0.1"

// Both ends of a connection traced by one agent: the context goes from socket to
// socket, across network namespaces and translated addresses, and no tag is on
// the wire.
func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		backend family
		virtual bool
	}{{"IPv4", ipv4, false}, {"IPv6", ipv6, false}, {"translated", ipv4, true}} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			upstream := h.addressB(v.backend)
			if v.virtual {
				upstream = virtual
				sh(t, "ip", "-n", h.a, "route", "add", virtual+"/32", "via", h.b4)
				sh(t, "ip", "netns", "exec", h.a, "nft", "add table ip translate; "+
					"add chain ip translate out { type nat hook output priority -100; }; "+
					"add rule ip translate out ip daddr "+virtual+" dnat to "+h.b4)
			}
			w := wireTo(t, h, v.backend, upstream, proxyTo, answer)
			s := newSink(t)
			a := trace(t, s, nil, append(h.trusted(), "--port", "proxy="+itoa(w.proxy), "--port", "backend="+itoa(w.backend), "--trust", virtual)...)
			seen := watch(t, h.b, cable, w.backend)
			const requests = 3000
			send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
			m := a.settle()
			t.Log(m)
			seen.atLeast(t, 2*requests)
			// A connection whose first request overtakes the end of its handshake keeps to the wire.
			if packets, tags, _ := seen.seen(); tags > requests/10 {
				t.Errorf("%d tags in %d packets within the host", tags, packets)
			}
			wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
		})
	}
}

// Within one network namespace not even a mark is on the wire.
func TestSameHostLoopback(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	seen := watch(t, "", "lo", c.Services[0].Port, c.Services[1].Port)
	a := trace(t, s, nil, ports(c)...)
	const requests = 3000
	send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: requests, AppendPath: c.AppendPath})
	m := a.settle()
	seen.atLeast(t, 2*requests)
	if packets, tags, marks := seen.seen(); tags+marks > requests/10 {
		t.Errorf("%d tags and %d marks in %d packets", tags, marks, packets)
	} else {
		t.Logf("%d tags and %d marks in %d packets", tags, marks, packets)
	}
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
}
