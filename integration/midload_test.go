package integration

import (
	"testing"

	"github.com/tare-trace/tare/lab/load"
)

// An agent that starts under load arms the connections that are open already:
// those of the clients, and those in the services' pools.
func TestStartedUnderLoad(t *testing.T) {
	t.Parallel()
	need(t)
	for _, chain := range []string{"nginx", "shop"} {
		t.Run(chain, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, chain), newSink(t)
			l := keepSending(t, load.Options{Addr: c.Entry, Connections: 16, AppendPath: c.AppendPath})
			l.more(few(500)) // fills the pools
			a := trace(t, s, nil, ports(c)...)
			if m := a.mustMetrics(); m[`tare_connections_total{state="armed"}`] < 32 || m[`tare_connections_total{state="unarmed"}`] > 0 {
				t.Errorf("connections armed at the start:\n%v", m)
			}
			// Nothing that began before it is under way any more, and little of the rest is of that time.
			l.more(max(few(1000), 500))
			l.end()
			m := a.settle()

			all := judge(t, s.all(), shapeOf(t, chain))
			wantComplete(t, all, m, m.sampled(), 0.95)

			before := s.count()
			r := send(t, load.Options{Addr: c.Entry, Connections: 16, Requests: uint64(few(1000)), First: 1 << 32, AppendPath: c.AppendPath})
			m = a.settle()
			wantComplete(t, judge(t, s.since(before), shapeOf(t, chain)), m, int(r.OK), 0.999)
		})
	}
}
