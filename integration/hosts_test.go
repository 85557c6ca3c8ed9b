package integration

import (
	"net"
	"strings"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// Two hosts, each with an agent of its own, and a cable that loses 2% of the
// packets: what is lost comes again, with its tag and with no other's.
func TestTwoHostsWithLoss(t *testing.T) {
	t.Parallel()
	for _, v := range []family{ipv4, ipv6} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
			trust := append([]string{"--trust", "loopback", "--trust", "host"}, w.hosts.trusted()...)
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
			wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m.and(mb), requests, 0.99)
		})
	}
}

// Nothing of Tare's leaves for a network that is not trusted, and requests
// that come from there begin traces of their own.
func TestUntrustedNetworkSeesNothing(t *testing.T) {
	t.Parallel()
	for _, v := range []family{ipv4, ipv6} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
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
func twoHosts(t *testing.T, f family) wired {
	t.Helper()
	return wire(t, newHosts(t), f, proxyTo)
}

// wire does the same on given hosts, with another way to pass requests on.
func wire(t *testing.T, h hosts, f family, proxy func(listen, upstream string) string) wired {
	t.Helper()
	return wireTo(t, h, f, h.addressB(f), proxy, answer)
}

// wireTo is wire where the proxy knows the backend by the address upstream.
func wireTo(t *testing.T, h hosts, f family, upstream string, proxy func(listen, upstream string) string, answer func(listen string) string) wired {
	t.Helper()
	st := newStack(t)
	w := wired{hosts: h, proxy: testkit.FreePort(t), backend: testkit.FreePort(t)}
	w.entry = net.JoinHostPort(h.entry, itoa(w.proxy))
	// Only the proxy's host can reach it, and a request through the proxy would leave a
	// connection in its pool, which not every kernel lets an agent trace.
	st.nginxUnready("backend", h.b, answer(net.JoinHostPort(h.addressB(f), itoa(w.backend))))
	testkit.Until(t, deadline, "the backend listens", func() bool { return st.listens(h.b, w.backend) })
	st.nginx("proxy", h.a, proxy(net.JoinHostPort(h.entry, itoa(w.proxy)), net.JoinHostPort(upstream, itoa(w.backend))), w.entry)
	return w
}

// An agent notices that tags towards a host never arrive, and that they do again.
func TestUnansweredTags(t *testing.T) {
	t.Parallel()
	w := wire(t, newHosts(t), ipv4, proxyAnew)
	s := newSink(t)
	a, b := w.agents(t, s)
	untilTold := func(what string, told bool) {
		testkit.Until(t, 6*deadline, what, func() bool {
			send(t, load.Options{Addr: w.entry, Connections: 4, Requests: 50, AppendPath: numbered})
			peer := `tare_unanswered_tags{peer="` + net.JoinHostPort(w.hosts.b4, itoa(w.backend)) + `",sends_tags="false"}`
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
