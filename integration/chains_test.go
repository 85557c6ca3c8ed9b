package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// Every request sampled: at least 99.9% of the traces are complete.
func TestEveryRequest(t *testing.T) {
	need(t)
	for chain, requests := range map[string]uint64{"nginx": 6000, "shop": 3000} {
		t.Run(chain, func(t *testing.T) {
			c, s := start(t, chain), newSink(t)
			a := trace(t, s, nil, ports(c)...)
			send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: requests, AppendPath: c.AppendPath})
			m := a.settle()
			wantComplete(t, judge(t, s.all(), shapeOf(t, chain)), m, int(requests), 0.999)
		})
	}
}

// One request of ten sampled: chance decides which, and all of them are
// complete. What is not sampled leaves no span at all.
func TestOneOfTen(t *testing.T) {
	need(t)
	for chain, requests := range map[string]uint64{"nginx": 20000, "shop": 6000} {
		t.Run(chain, func(t *testing.T) {
			c, s := start(t, chain), newSink(t)
			a := trace(t, s, nil, append(ports(c), ratio("0.1")...)...)
			send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: requests, AppendPath: c.AppendPath})
			m := a.settle()
			r := judge(t, s.all(), shapeOf(t, chain))
			wantRate(t, m.sampled(), int(requests), 0.1)
			if total := m.sampled() + m.unsampled(); total != int(requests) {
				t.Errorf("%d root decisions for %d requests", total, requests)
			}
			wantComplete(t, r, m, m.sampled(), 1)
		})
	}
}

// What is said for all services fills in where nothing is known: nginx is known.
func TestLinkingForAll(t *testing.T) {
	need(t)
	c, s := start(t, "nginx"), newSink(t)
	a := trace(t, s, nil, append(ports(c), "--linking", "thread")...)
	const requests = 6000
	send(t, load.Options{Addr: c.Entry, Connections: 32, Requests: requests, AppendPath: c.AppendPath})
	m := a.settle()
	wantComplete(t, judge(t, s.all(), shapeOf(t, "nginx")), m, requests, 0.999)
}
