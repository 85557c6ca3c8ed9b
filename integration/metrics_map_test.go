package integration

import (
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

// A map of services of which no span was ever made: what agents measure comes by OTLP into the store, every
// request once.
func TestMapFromMetrics(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := storeIn(t, t.TempDir())
			st := newStack(t)
			proxy, backend := testkit.FreePort(t), testkit.FreePort(t)
			st.nginx("backend", "", byNumber(loopback(backend)), loopback(backend))
			st.nginx("proxy", "", proxyTo(loopback(proxy), loopback(backend)), loopback(proxy))
			endpoint := map[string]string{"http/protobuf": s.http, "grpc": s.otlp}[protocol]
			a := trace(t, newSink(t), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol},
				"--metrics", "requests", "--sampler", "always_off", "--metrics-interval", "200ms",
				"--port", "proxy="+itoa(proxy), "--port", "backend="+itoa(backend))
			const requests = 2000
			r, err := load.Run(t.Context(), load.Options{Addr: loopback(proxy), Connections: 8, Requests: requests, AppendPath: numbered})
			if err != nil || r.OK+r.Failed != requests {
				t.Fatalf("%d and %d answers: %v", r.OK, r.Failed, err)
			}
			a.settle()
			type calls struct {
				Name, From, To   string
				Traced, Measured bool
				Requests, Errors float64
			}
			var got struct{ Nodes, Edges []calls }
			testkit.Until(t, time.Minute, "all requests are on the map", func() bool {
				err = s.get("/api/v1/map", &got)
				return err == nil && len(got.Edges) == 1 && got.Edges[0].Requests >= requests && len(got.Nodes) == 2 && got.Nodes[0].Requests+got.Nodes[1].Requests >= 2*requests
			})
			if e := got.Edges[0]; e.From != "proxy" || e.To != "backend" || !e.Traced || !e.Measured || e.Requests != requests || e.Errors != requests*3/10 {
				t.Errorf("%+v", e)
			}
			for _, n := range got.Nodes {
				if !n.Measured || n.Requests != requests || n.Errors != requests*2/10 {
					t.Errorf("%+v", n)
				}
			}
			var stats struct{ Spans int }
			if err := s.get("/api/v1/stats", &stats); err != nil || stats.Spans != 0 {
				t.Errorf("%d spans are stored, %v", stats.Spans, err)
			}
		})
	}
}
