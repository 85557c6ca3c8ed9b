package integration

import (
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// nginx asks again at once where a kept connection is reset: each attempt is a
// client span, and the one that is answered has a server span below it.
func TestRetriedAfterReset(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "python3")
	c, s := newServers(t), newSink(t)
	proxy := testkit.FreePort(t)
	c.selects("proxy", proxy)
	c.answers(python("resetting")(c))
	c.nginx("proxy", "", proxyTo(loopback(proxy), loopback(c.entry)+" max_fails=0"), loopback(proxy))
	a := trace(t, s, nil, c.ports...)
	const requests = 2000
	send(t, load.Options{Addr: loopback(proxy), Connections: 16, Requests: requests, AppendPath: numbered})
	m := a.settle()
	spans := s.all()
	judge(t, spans, serve("proxy", "/n/", call("proxy", "/n/", serve("service", "/n/"))))
	// A connection is reset at its fifth request, if nginx did not close it before.
	wantAttempts(t, spans, m, requests, requests/10)
}

// wantAttempts requires that traces are whole where a request may be sent again: the
// request, one attempt or more, one of which is answered; and that so many had more
// than one.
func wantAttempts(t *testing.T, spans []span.Span, m metrics, requests, least int) {
	t.Helper()
	attempts, answered := map[span.TraceID]int{}, map[span.TraceID]int{}
	byID := map[span.ID]*span.Span{}
	for i := range spans {
		byID[spans[i].ID] = &spans[i]
	}
	for i := range spans {
		sp := &spans[i]
		parent := byID[sp.Parent]
		switch {
		case parent == nil:
		case sp.Kind == span.Client && parent.Parent.IsZero():
			attempts[sp.TraceID]++
		case sp.Kind == span.Server && parent.Kind == span.Client && parent.Status != span.Error:
			answered[sp.TraceID]++
			if sp.Status == span.Error {
				t.Errorf("answered, and an error: %s", describe(sp))
			}
		}
	}
	whole, retried := 0, 0
	for id, n := range answered {
		if n == 1 && attempts[id] > 0 {
			whole++
		}
		if attempts[id] > 1 {
			retried++
		}
	}
	t.Logf("%d requests are whole, %d of them with more than one attempt", whole, retried)
	if whole < requests-requests/1000 || retried < least {
		t.Errorf("%d of %d requests are whole, %d with more than one attempt\n%v", whole, requests, retried, m)
	}
}
