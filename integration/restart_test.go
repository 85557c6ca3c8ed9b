package integration

import (
	"context"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// A service that is stopped and started again is traced again.
func TestServiceRestarted(t *testing.T) {
	t.Parallel()
	need(t)
	for _, restarted := range []struct{ chain, service string }{
		{"nginx", "backend"}, {"nginx", "proxy"}, {"shop", "shop"}, {"shop", "redis"},
	} {
		t.Run(restarted.chain+" "+restarted.service, func(t *testing.T) {
			t.Parallel()
			c, s := start(t, restarted.chain), newSink(t)
			a := trace(t, s, nil, ports(c)...)
			load1 := load.Options{Addr: c.Entry, Connections: 8, Requests: uint64(few(300)), AppendPath: c.AppendPath}
			send(t, load1)

			// Under load: requests fail now, but none may be wrong.
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(20*time.Second))
			defer cancel()
			g, err := load.Start(ctx, load.Options{Addr: c.Entry, Connections: 8, Duration: testkit.Patient(20 * time.Second), Timeout: testkit.Patient(10 * time.Second), First: 1 << 20, AppendPath: c.AppendPath})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Restart(ctx, restarted.service); err != nil {
				t.Fatal(err)
			}
			g.Stop()
			if _, err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			judge(t, s.all(), shapeOf(t, restarted.chain))

			// Services find out with the next request that pooled connections are dead:
			// more requests at once than before reach most of them, and what is judged reaches the others.
			settle := load.Options{Addr: c.Entry, Connections: 64, Requests: 640, Timeout: testkit.Patient(10 * time.Second), First: 1 << 25, AppendPath: c.AppendPath}
			judged := load.Options{Addr: c.Entry, Connections: 8, Requests: uint64(few(500)), Timeout: settle.Timeout, First: 1 << 30, AppendPath: c.AppendPath}
			wholly := func(o *load.Options) bool {
				r, err := load.Run(ctx, *o)
				if err != nil {
					t.Fatalf("the restarted chain does not come back: %v", err)
				}
				o.First += o.Requests
				return r.OK == o.Requests
			}
			testkit.Until(t, 20*time.Second, "no request fails, and the agent knows the new process", func() bool {
				before, fine := s.count(), wholly(&settle)
				a.settle()
				return fine && judge(t, s.since(before), shapeOf(t, restarted.chain)).Complete == int(settle.Requests)
			})
			var before, sampled int
			for {
				a.settle()
				before, sampled = s.count(), a.mustMetrics().sampled()
				if wholly(&judged) {
					break
				}
			}
			m := a.settle()
			wantRoots(t, m, m.sampled()-sampled, int(judged.Requests))
			wantComplete(t, judge(t, s.since(before), shapeOf(t, restarted.chain)), m, int(judged.Requests), 0.999)
			judge(t, s.all(), shapeOf(t, restarted.chain))
		})
	}
}
