package agent

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUnansweredTags(t *testing.T) {
	var log bytes.Buffer
	p := newPeers(slog.New(slog.NewTextHandler(&log, nil)))
	at := time.Unix(1e9, 0)
	p.now = func() time.Time { return at }
	ask := func(addr string, port uint16, n int, answered bool) {
		for range n {
			p.TagSent(netip.MustParseAddr(addr), port, answered)
		}
	}
	want := func(list ...unanswered) {
		t.Helper()
		if got := p.list(); !slices.Equal(got, list) {
			t.Errorf("got %v, want %v", got, list)
		}
	}
	said := func(n int, text string) {
		t.Helper()
		if got := strings.Count(log.String(), text); got != n {
			t.Errorf("%q is %d times in the log, not %d:\n%s", text, got, n, &log)
		}
	}
	silent := netip.MustParseAddrPort("10.0.0.1:80")
	ask("10.0.0.1", 80, unansweredAfter, false)
	ask("10.0.0.2", 80, unansweredAfter, true)
	ask("10.0.0.2", 5432, unansweredAfter, false) // beside a traced service: it has no tracer
	want()                                        // too early
	at = at.Add(unansweredFor)
	ask("10.0.0.1", 80, 2, false)
	ask("fd00::3", 80, unansweredAfter-1, false) // too few
	want(unanswered{silent, false, unansweredAfter + 2})
	said(1, "it has no agent, or something on the path removes TCP options")
	said(1, `"tare doctor --peer 10.0.0.1:80"`)

	p.TagReceived(silent.Addr())
	want(unanswered{silent, true, unansweredAfter + 2})
	ask("10.0.0.1", 81, 1, true) // another port, the same path
	want()
	said(1, "arrive now")

	// From a peer that answered once, other services may be asked for a while.
	ask("10.0.0.1", 80, unansweredAfter, false)
	at = at.Add(answeredBefore - 1)
	want(unanswered{netip.MustParseAddrPort("10.0.0.2:5432"), false, unansweredAfter})
	at = at.Add(1)
	ask("10.0.0.1", 80, 1, false)
	want(unanswered{silent, true, unansweredAfter + 1}, unanswered{netip.MustParseAddrPort("10.0.0.2:5432"), false, unansweredAfter})
	said(1, "tags come from this address")
	at = at.Add(peerForgotten + 1)
	want()
}

// Many addresses neither fill the memory nor the log.
func TestUnansweredTagsOfMany(t *testing.T) {
	var log bytes.Buffer
	p := newPeers(slog.New(slog.NewTextHandler(&log, nil)))
	at := time.Unix(1e9, 0)
	p.now = func() time.Time { return at }
	addr := netip.MustParseAddr("10.0.0.0")
	for range 2 * peersKnown {
		addr = addr.Next()
		for range unansweredAfter {
			p.TagSent(addr, 80, false)
		}
		at = at.Add(unansweredFor / peersKnown)
	}
	at = at.Add(unansweredFor)
	for a := netip.MustParseAddr("10.0.0.0"); a != addr; a = a.Next() {
		p.TagSent(a, 80, false)
	}
	if len(p.at) != peersKnown || len(p.list()) != peersTold || strings.Count(log.String(), "\n") != unansweredLines {
		t.Errorf("%d peers are known, %d told, log:\n%s", len(p.at), len(p.list()), &log)
	}
	at = at.Add(peerForgotten + 1)
	p.TagSent(addr.Next(), 80, false)
	if len(p.at) != 1 {
		t.Errorf("%d peers are known after they were quiet", len(p.at))
	}
}
