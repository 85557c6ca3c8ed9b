package integration

import (
	"net"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// Two hosts, each with an agent of its own, and a cable that loses 2% of the
// packets: what is lost comes again, with its tag and with no other's.
func TestTwoHostsWithLoss(t *testing.T) {
	for _, v := range []struct{ name, backend string }{{"IPv4", addrB4}, {"IPv6", addrB6}} {
		t.Run(v.name, func(t *testing.T) {
			w := twoHosts(t, v.backend)
			trust := []string{"--trust", "loopback", "--trust", "host", "--trust", cableNet, "--trust", cableNet6}
			s := newSink(t)
			a := trace(t, s, nil, append([]string{"--port", "proxy=" + itoa(w.proxy)}, trust...)...)
			b := trace(t, s, nil, append([]string{"--port", "backend=" + itoa(w.backend)}, trust...)...)
			w.hosts.lose(t)
			wire := watch(t, w.hosts.b, cable, w.backend)
			requests := few(3000)
			send(t, load.Options{Addr: w.entry, Connections: 32, Requests: uint64(requests), AppendPath: numbered})
			m, mb := a.settle(), b.settle()
			t.Logf("proxy's agent:\n%vbackend's agent:\n%v", m, mb)
			wire.atLeast(t, 2*requests)
			if packets, tags, _ := wire.seen(); tags < requests*9/10 {
				t.Errorf("%d tags in %d packets between the hosts", tags, packets)
			}
			wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.99)
		})
	}
}

// Nothing of Tare's leaves for a network that is not trusted, and requests
// that come from there begin traces of their own.
func TestUntrustedNetworkSeesNothing(t *testing.T) {
	for _, v := range []struct{ name, backend string }{{"IPv4", addrB4}, {"IPv6", addrB6}} {
		t.Run(v.name, func(t *testing.T) {
			w := twoHosts(t, v.backend)
			s := newSink(t)
			wire := watch(t, w.hosts.b, cable, w.backend)
			outside := watch(t, w.hosts.a, "client", w.proxy)
			a := trace(t, s, nil, "--port", "proxy="+itoa(w.proxy))
			b := trace(t, s, nil, "--port", "backend="+itoa(w.backend))
			requests := few(1000)
			send(t, load.Options{Addr: w.entry, Connections: 8, Requests: uint64(requests), AppendPath: numbered})
			m, mb := a.settle(), b.settle()
			for name, c := range map[string]*capture{"between the hosts": wire, "towards the client": outside} {
				c.atLeast(t, 2*requests)
				if packets, tags, marks := c.seen(); tags > 0 || marks > 0 {
					t.Errorf("%s: %d tags and %d marks in %d packets", name, tags, marks, packets)
				}
			}
			if m.sampled() != requests || mb.sampled() != requests {
				t.Errorf("%d root decisions at the proxy and %d at the backend for %d requests", m.sampled(), mb.sampled(), requests)
			}
			r := judge(t, s.all(), shapeOf(t, "nginx"))
			if r.Spans != 3*requests || r.Traces != 2*requests || r.Orphaned != 0 {
				t.Errorf("%d spans in %d traces, %d of them orphaned", r.Spans, r.Traces, r.Orphaned)
			}
		})
	}
}

type wired struct {
	hosts          hosts
	proxy, backend int // ports
	entry          string
}

// twoHosts starts a proxy on one host and its backend on the other.
func twoHosts(t *testing.T, backend string) wired {
	t.Helper()
	return wire(t, newHosts(t), backend, backend, proxyTo)
}

// wire does the same on given hosts; the proxy knows the backend by the address
// upstream.
func wire(t *testing.T, h hosts, backend, upstream string, proxy func(listen, upstream string) string) wired {
	t.Helper()
	return wireTo(t, h, backend, upstream, proxy, answer)
}

func wireTo(t *testing.T, h hosts, backend, upstream string, proxy func(listen, upstream string) string, answer func(listen string) string) wired {
	t.Helper()
	st := newStack(t)
	w := wired{hosts: h, proxy: freePort(t), backend: freePort(t)}
	w.entry = net.JoinHostPort(fromHere, itoa(w.proxy))
	// Only the proxy's host can reach it, and a request through the proxy would leave a
	// connection in its pool, which not every kernel lets an agent trace.
	st.nginxUnready("backend", h.b, answer(net.JoinHostPort(backend, itoa(w.backend))))
	until(t, deadline, "the backend listens", func() bool { return st.listens(h.b, w.backend) })
	st.nginx("proxy", h.a, proxy(net.JoinHostPort(fromHere, itoa(w.proxy)), net.JoinHostPort(upstream, itoa(w.backend))), w.entry)
	return w
}

// An agent notices that tags towards a host never arrive, and that they do again.
func TestUnansweredTags(t *testing.T) {
	w := wire(t, newHosts(t), addrB4, addrB4, proxyAnew)
	s := newSink(t)
	a, b := w.agents(t, s)
	untilTold := func(what string, told bool) {
		until(t, 6*deadline, what, func() bool {
			send(t, load.Options{Addr: w.entry, Connections: 4, Requests: 50, AppendPath: numbered})
			peer := `tare_unanswered_tags{peer="` + net.JoinHostPort(addrB4, itoa(w.backend)) + `",sends_tags="false"}`
			return a.mustMetrics()[peer] > 0 == told
		})
	}
	w.hosts.strip(t)
	untilTold("tags are not answered", true)
	w.hosts.stripNoMore(t)
	untilTold("tags are answered again", false)
	for _, tracer := range []*tracer{a, b} {
		for name := range tracer.mustMetrics() {
			if strings.HasPrefix(name, "tare_unanswered_tags") {
				t.Errorf("%s", name)
			}
		}
	}
}
