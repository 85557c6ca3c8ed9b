package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// place is where a request began: a connection as its client sees it, and how
// many bytes the client had sent before.
type place struct {
	client, server string
	offset         int64
}

func placeOf(t *testing.T, s *span.Span) place {
	t.Helper()
	attr := func(key string) span.Attr {
		a, ok := s.Attr(key)
		if !ok {
			t.Fatalf("no %s in %s", key, describe(s))
		}
		return a
	}
	address := func(which string) string {
		a, port := attr("network."+which+".address"), attr("network."+which+".port")
		return a.Text() + " " + port.Text()
	}
	offset := attr(semconv.StreamOffset)
	p := place{address("local"), address("peer"), offset.Num}
	if s.Kind == span.Server {
		p.client, p.server = p.server, p.client
	}
	return p
}

// wantSamePlaces requires that every client span whose server span is there
// says the same place, and returns how many there were, and the largest offset.
func wantSamePlaces(t *testing.T, spans []span.Span) (pairs int, last int64) {
	t.Helper()
	clients := map[span.ID]*span.Span{}
	for i := range spans {
		if spans[i].Kind == span.Client {
			clients[spans[i].ID] = &spans[i]
		}
	}
	for i := range spans {
		c := clients[spans[i].Parent]
		if c == nil || spans[i].Kind != span.Server {
			continue
		}
		pairs++
		at, from := placeOf(t, c), placeOf(t, &spans[i])
		last = max(last, at.offset)
		if at != from {
			t.Fatalf("the client says %+v, the server %+v\n%s\n%s", at, from, describe(c), describe(&spans[i]))
		}
	}
	return pairs, last
}

// The kernel counts a connection's bytes at both ends alike: over many
// requests, under loss, and on connections that were open before the agents.
func TestStreamOffsets(t *testing.T) {
	t.Run("shop", func(t *testing.T) {
		need(t)
		c, s := start(t, "shop"), newSink(t)
		a := trace(t, s, nil, append([]string{"--sequence"}, ports(c)...)...)
		const requests = 1000
		send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: requests, AppendPath: c.AppendPath})
		a.settle()
		// proxy → shop → redis, memcached, stock
		if pairs, last := wantSamePlaces(t, s.all()); pairs < 4*requests*99/100 || last < 1000 {
			t.Errorf("%d pairs of spans for %d requests, offsets up to %d", pairs, requests, last)
		}
	})
	for _, v := range []struct{ name, backend string }{{"loss, IPv4", addrB4}, {"loss, IPv6", addrB6}} {
		t.Run(v.name, func(t *testing.T) {
			w := twoHosts(t, v.backend)
			w.hosts.lose(t)
			l := keepSending(t, load.Options{Addr: w.entry, Connections: 16, AppendPath: numbered})
			l.more(300)
			s := newSink(t)
			a, b := w.agents(t, s, "--sequence")
			l.more(3000)
			l.end()
			a.settle()
			b.settle()
			if pairs, last := wantSamePlaces(t, s.all()); pairs < 1000 || last < 5000 {
				t.Errorf("%d pairs of spans, offsets up to %d", pairs, last)
			}
		})
	}
}

// agents traces both hosts, which trust the cable between them.
func (w wired) agents(t *testing.T, s *sink, args ...string) (a, b *tracer) {
	t.Helper()
	args = append(args, "--trust", "loopback", "--trust", "host", "--trust", cableNet, "--trust", cableNet6)
	a = trace(t, s, nil, append([]string{"--port", "proxy=" + itoa(w.proxy)}, args...)...)
	b = trace(t, s, nil, append([]string{"--port", "backend=" + itoa(w.backend)}, args...)...)
	return a, b
}

// Something between the hosts blanks out TCP options that it does not know: no
// tag and no mark arrive, the two halves are traces of their own, and their
// places say which belong together.
func TestOptionsStripped(t *testing.T) {
	w := twoHosts(t, addrB4)
	for _, ns := range []string{w.hosts.a, w.hosts.b} {
		sh(t, "ip", "netns", "exec", ns, "nft",
			"add table inet strip; "+
				"add chain inet strip out { type filter hook output priority 0; }; "+
				"add rule inet strip out oifname "+cable+" meta l4proto tcp reset tcp option 25; "+
				"add rule inet strip out oifname "+cable+" meta l4proto tcp reset tcp option 253")
	}
	s := newSink(t)
	wire := watch(t, w.hosts.b, cable, w.backend)
	a, b := w.agents(t, s, "--sequence")
	const requests = 1000
	send(t, load.Options{Addr: w.entry, Connections: 8, Requests: requests, AppendPath: numbered})
	m, mb := a.settle(), b.settle()
	wire.atLeast(t, 2*requests)
	if packets, tags, marks := wire.seen(); tags > 0 || marks > 0 {
		t.Fatalf("%d tags and %d marks in %d packets", tags, marks, packets)
	}
	if m.sampled() != requests || mb.sampled() != requests {
		t.Errorf("%d root decisions at the proxy and %d at the backend for %d requests", m.sampled(), mb.sampled(), requests)
	}
	spans := s.all()
	servers := map[place]*span.Span{}
	for i := range spans {
		if spans[i].Resource.Service == "backend" {
			p := placeOf(t, &spans[i])
			if servers[p] != nil {
				t.Fatalf("two requests at %+v", p)
			}
			servers[p] = &spans[i]
		}
	}
	joined := 0
	for i := range spans {
		if spans[i].Kind != span.Client {
			continue
		}
		p := placeOf(t, &spans[i])
		other := servers[p]
		if other == nil {
			t.Fatalf("nothing at the backend at %+v", p)
		}
		asked, _ := spans[i].Attr("url.path")
		got, _ := other.Attr("url.path")
		if asked.Text() != got.Text() || asked.Text() == "" {
			t.Fatalf("at %+v, %s and %s", p, asked.Text(), got.Text())
		}
		if _, traced := spans[i].Attr(semconv.PeerTraced); traced {
			t.Fatal("the peer showed no mark, and is taken for traced")
		}
		joined++
	}
	if joined != requests {
		t.Errorf("%d requests of %d found their other half", joined, requests)
	}
}

// Off is the default.
func TestNoStreamOffsets(t *testing.T) {
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: 100, AppendPath: c.AppendPath})
	a.settle()
	for _, sp := range s.all() {
		if _, ok := sp.Attr(semconv.StreamOffset); ok {
			t.Fatalf("an offset in %s", describe(&sp))
		}
	}
}
