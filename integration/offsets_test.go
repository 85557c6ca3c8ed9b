package integration

import (
	"slices"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// place is where a request began: a connection as its client sees it, and how
// many bytes the client had sent before, with the sequence number.
type place struct {
	client, server string
	offset         int64
	sequence       int64
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
	offset, sequence := attr(semconv.StreamOffset), attr(semconv.StreamSequence)
	p := place{address("local"), address("peer"), offset.Num, sequence.Num}
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
	t.Parallel()
	t.Run("shop", func(t *testing.T) {
		t.Parallel()
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
	for _, v := range []family{ipv4, ipv6} {
		t.Run("loss, "+string(v), func(t *testing.T) {
			t.Parallel()
			w := twoHosts(t, v)
			w.hosts.lose(t)
			l := keepSending(t, load.Options{Addr: w.entry, Connections: 16, Rate: 2000, AppendPath: numbered})
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
	return w.agent(t, s, "proxy", w.proxy, args...), w.agent(t, s, "backend", w.backend, args...)
}

func (w wired) agent(t *testing.T, s *sink, name string, port int, args ...string) *tracer {
	t.Helper()
	return trace(t, s, nil, slices.Concat([]string{"--port", name + "=" + itoa(port), "--trust", "loopback", "--trust", "host"}, w.hosts.trusted(), args)...)
}

// Off is the default.
func TestNoStreamOffsets(t *testing.T) {
	t.Parallel()
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, ports(c)...)
	send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: 100, AppendPath: c.AppendPath})
	a.settle()
	for _, sp := range s.all() {
		_, offset := sp.Attr(semconv.StreamOffset)
		if _, number := sp.Attr(semconv.StreamSequence); offset || number {
			t.Fatalf("an offset in %s", describe(&sp))
		}
	}
}
