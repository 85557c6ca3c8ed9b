package integration

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

const tagIP = "--tag=ip"

// agentsByIP is agents with tags in IP headers, once both know that the path passes options on; before is how many
// spans there are by then.
func (w wired) agentsByIP(t *testing.T, s *sink) (a, b *tracer, before int) {
	t.Helper()
	a, b = w.agents(t, s, tagIP)
	testkit.Until(t, deadline, "the way there and back is known to pass options on", func() bool {
		send(t, load.Options{Addr: w.entry, Connections: 1, Requests: 20, AppendPath: numbered})
		return a.settle().paths("pass") == 1 && b.settle().paths("pass") == 1
	})
	return a, b, s.count()
}

func (m metrics) paths(result string) int {
	return m.int(`tare_ip_paths_total{result="` + result + `"}`)
}

// Two hosts, and a cable that loses 2% of the packets once its ends know that it passes
// IP options on.
func TestIPHeaders(t *testing.T) {
	t.Parallel()
	for _, v := range []family{ipv4, ipv6} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
			s := newSink(t)
			a, b, before := w.agentsByIP(t, s)
			w.hosts.lose(t)
			wire := watch(t, w.hosts.b, cable, w.backend)
			const requests = 3000
			send(t, load.Options{Addr: w.entry, Connections: 32, Requests: requests, AppendPath: numbered})
			m, mb := a.settle(), b.settle()
			t.Logf("proxy's agent:\n%vbackend's agent:\n%v", m, mb)
			wire.atLeast(t, 2*requests)
			if packets, tags, marks := wire.seen(); tags < requests*9/10 || marks == 0 {
				t.Errorf("%d tags and %d marks in %d packets between the hosts", tags, marks, packets)
			}
			wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m.and(mb), requests, 0.999)
		})
	}
}

// Each connection has one request. It completes the handshake: the socket that its option is
// for is not there yet when the packet comes in. Or it comes while another CPU handles the
// packet that does: the socket is there, and not yet known to be a connection.
func TestIPHeadersWithHandshakes(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name        string
		family      family
		answer      func(listen string) string
		connections int
		lossy       bool
	}{
		{"deferred, IPv4", ipv4, answerDeferred, 1, false},
		{"deferred, IPv6", ipv6, answerDeferred, 1, false},
		{"at once", ipv4, answer, 32, false},
		{"at once and lost, IPv4", ipv4, answer, 32, true},
		{"at once and lost, IPv6", ipv6, answer, 32, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			w := wireTo(t, h, v.family, h.addressB(v.family), proxyAnew, v.answer)
			s := newSink(t)
			a, b, before := w.agentsByIP(t, s)
			if v.lossy {
				h.lose(t)
			}
			const requests = 3000
			send(t, load.Options{Addr: w.entry, Connections: v.connections, Requests: requests, AppendPath: numbered})
			m, mb := a.settle(), b.settle()
			t.Logf("proxy's agent:\n%vbackend's agent:\n%v", m, mb)
			wantComplete(t, judge(t, s.since(before), shapeOf(t, "nginx")), m.and(mb), requests, 0.999)
		})
	}
}

// Bodies of 1 MB: the packet with the beginning of a request is cut into many, each of
// them with its options.
func TestIPHeadersOfLargePackets(t *testing.T) {
	t.Parallel()
	for _, v := range []family{ipv4, ipv6} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
			// It cuts packets that are larger than its burst, as a device without offload does, and drops none.
			sh(t, "tc", "-n", w.hosts.a, "qdisc", "add", "dev", cable, "root", "tbf", "rate", "4gbit", "burst", "5kb", "limit", "200mb")
			s := newSink(t)
			a, b := w.agents(t, s, tagIP)
			wire := watch(t, w.hosts.b, cable, w.backend)
			const requests = 300
			send(t, load.Options{Addr: w.entry, Connections: 1, Requests: requests, AppendPath: numbered, BodySize: 1 << 20})
			m, mb := a.settle(), b.settle()
			packets, tags, _ := wire.seen()
			t.Logf("%d tags in %d packets; proxy's agent:\n%vbackend's agent:\n%v", tags, packets, m, mb)
			if tags < 2*requests {
				t.Errorf("%d tags in %d packets: none of the packets was cut", tags, packets)
			}
			// A segment that fills the MTU has no room for its tag, and a probe that is sent again
			// closes the path for that request: then its trace is in two parts.
			if r := judge(t, s.all(), shapeOf(t, "nginx")); r.Complete < requests*95/100 {
				t.Errorf("%d of %d requests complete", r.Complete, requests)
			}
		})
	}
}

// Nothing leaves for a network that is not trusted.
func TestIPHeadersStayWithinTrust(t *testing.T) {
	t.Parallel()
	w := twoHosts(t, ipv4)
	s := newSink(t)
	wire := watch(t, w.hosts.b, cable, w.backend)
	a := trace(t, s, nil, "--port", "proxy="+itoa(w.proxy), tagIP)
	b := trace(t, s, nil, "--port", "backend="+itoa(w.backend), tagIP)
	const requests = 1000
	send(t, load.Options{Addr: w.entry, Connections: 8, Requests: requests, AppendPath: numbered})
	m, mb := a.settle(), b.settle()
	wire.wantOptions(t, 2*requests, false)
	if m.sampled() != requests || mb.sampled() != requests {
		t.Errorf("%d root decisions at the proxy and %d at the backend for %d requests", m.sampled(), mb.sampled(), requests)
	}
}

// Where packets with options are dropped, or come without them, the first connection
// learns it, and the services go on without tags.
func TestIPHeadersRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		backend family
		result  string
		reload  bool // the agent looks at all connections again meanwhile
	}{
		{"dropped, IPv4", ipv4, "drop", false},
		{"dropped, IPv4, reloaded", ipv4, "drop", true},
		{"dropped, IPv6", ipv6, "drop", false},
		{"stripped, IPv4", ipv4, "unanswered", false},
		{"stripped, IPv6", ipv6, "unanswered", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v.backend)
			if v.result == "drop" {
				w.hosts.dropIPOptions(t)
			} else {
				w.hosts.stripIPOptions(t)
			}
			s := newSink(t)
			a, b := w.agents(t, s, tagIP)
			wire := watch(t, w.hosts.a, cable, w.backend)
			const requests = 2000
			answered := make(chan struct{})
			var reloads sync.WaitGroup
			if v.reload {
				reloads.Go(func() {
					for ; ; time.Sleep(10 * time.Millisecond) {
						select {
						case <-answered:
							return
						default:
							if err := a.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			send(t, load.Options{Addr: w.entry, Connections: 16, Requests: requests, AppendPath: numbered})
			close(answered)
			reloads.Wait()
			m, mb := a.settle(), b.settle()
			t.Logf("proxy's agent:\n%vbackend's agent:\n%v", m, mb)
			wire.atLeast(t, 2*requests)
			// A path that answers nothing is tried again every ten seconds.
			packets, tags, marks := wire.seen()
			if most := 1 + m.paths(v.result); tags == 0 || tags+marks > 2*most {
				t.Errorf("%d tags and %d marks in %d packets", tags, marks, packets)
			}
			if n := m.paths(v.result); n == 0 || m.paths("pass") > 0 || v.result == "drop" && n != 1 {
				t.Errorf("the path was found to %s %d times, and to pass options on %d times", v.result, n, m.paths("pass"))
			}
			if lost := m.lost("tag_no_path"); lost < requests-10 {
				t.Errorf("%d tags counted as not sent", lost)
			}
			if mb.tags("received") > 0 || mb.sampled() != requests {
				t.Errorf("%d tags received, %d root decisions at the backend", mb.tags("received"), mb.sampled())
			}
			judge(t, s.all(), shapeOf(t, "nginx"))
		})
	}
}

// A path that was known to pass options on drops them from now on. The requests that
// were sent with a tag in vain arrive without it, and are counted.
func TestIPHeadersDroppedLater(t *testing.T) {
	t.Parallel()
	for _, v := range []family{ipv4, ipv6} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
			s := newSink(t)
			a, b, before := w.agentsByIP(t, s)
			earlier := a.mustMetrics().lost("tag_no_path")
			w.hosts.dropIPOptions(t)
			const requests = 500
			send(t, load.Options{Addr: w.entry, Connections: 8, Requests: requests, AppendPath: numbered})
			m, mb := a.settle(), b.settle()
			t.Logf("proxy's agent:\n%vbackend's agent:\n%v", m, mb)
			r := judge(t, s.since(before), shapeOf(t, "nginx"))
			if n := m.lost("tag_no_path") - earlier; n < requests-r.Complete || n == 0 {
				t.Errorf("%d of %d requests complete, and %d tags counted as not sent", r.Complete, requests, n)
			}
			if m.paths("drop") != 1 {
				t.Errorf("the path was found to drop packets %d times, want once", m.paths("drop"))
			}
		})
	}
}

// Databases, proxies and services on one host, over the loopback device.
func TestIPHeadersOnOneHost(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "shop"), newSink(t)
	a := trace(t, s, nil, append(ports(c), tagIP, overWire)...)
	send(t, load.Options{Addr: c.Entry, Connections: 1, Requests: 100, AppendPath: c.AppendPath})
	a.settle()
	before := s.count()
	const requests = 2000
	send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: requests, AppendPath: c.AppendPath})
	m := a.settle()
	t.Log(m)
	wantComplete(t, judge(t, s.since(before), shapeOf(t, "shop")), m, requests, 0.999)
}

// needEgress leaves a test out where programs cannot be attached to what leaves a
// device (Linux 6.6), without which there is no --tag ip.
func needEgress(t *testing.T) {
	t.Helper()
	need(t)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, // go on
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()                                                                  // the link holds it
	l, err := link.AttachTCX(link.TCXOptions{Interface: 1, Program: p, Attach: ebpf.AttachTCXEgress}) // lo
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
