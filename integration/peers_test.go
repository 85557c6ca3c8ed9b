package integration

import (
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// peers counts the client spans that say that their peer is traced, and those
// that do not.
func peers(spans []span.Span) (traced, unknown int) {
	for i := range spans {
		if spans[i].Kind != span.Client {
			continue
		}
		if a, ok := spans[i].Attr(semconv.PeerTraced); ok && a.Text() == "true" {
			traced++
		} else {
			unknown++
		}
	}
	return traced, unknown
}

// A client span says that its peer is traced if the peer answered the mark.
func TestTracedPeers(t *testing.T) {
	t.Parallel()
	need(t)
	requests := few(500)
	for _, v := range []struct {
		name            string
		services        int // how many of proxy and backend are traced
		close           bool
		traced, unknown int
	}{
		{"both", 2, false, requests, 0},
		{"both, a connection for each request", 2, true, requests, 0},
		{"the proxy", 1, false, 0, requests},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, "nginx"), newSink(t)
			a := trace(t, s, nil, ports(c)[:2*v.services]...)
			send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: uint64(requests), Close: v.close, AppendPath: c.AppendPath})
			a.settle()
			if traced, unknown := peers(s.all()); traced != v.traced || unknown != v.unknown {
				t.Errorf("%d spans with a traced peer, %d without, want %d and %d", traced, unknown, v.traced, v.unknown)
			}
		})
	}
}

// Over a cable that loses packets the peer is known all the same; when its
// agent is gone, it stops answering, and is forgotten; and known again when it
// is back.
func TestPeersComeAndGo(t *testing.T) {
	t.Parallel()
	w := twoHosts(t, ipv4)
	w.hosts.lose(t)
	s := newSink(t)
	a, b := w.agents(t, s)
	const requests = 500
	ask := func(first uint64, n uint64) (traced, unknown int) {
		t.Helper()
		before := s.count()
		send(t, load.Options{Addr: w.entry, Connections: 8, Requests: n, First: first, AppendPath: numbered})
		a.settle()
		return peers(s.since(before))
	}
	if traced, unknown := ask(0, requests); traced != requests || unknown != 0 {
		t.Errorf("%d spans with a traced peer, %d without", traced, unknown)
	}
	b.Stop()
	next := uint64(requests)
	// A renewal of the mark is due every 10 s, and the second one finds that
	// the first was not answered, once requests have carried it.
	testkit.Until(t, 90*time.Second, "the peer is forgotten", func() bool {
		traced, _ := ask(next, 50)
		next += 50
		return traced == 0
	})
	trace(t, s, nil, "--port", "backend="+itoa(w.backend), "--trust", w.hosts.net4)
	testkit.Until(t, 60*time.Second, "the peer is known again", func() bool {
		before := next
		next += 50
		traced, unknown := ask(before, 50)
		return traced >= 50 && unknown == 0
	})
}
